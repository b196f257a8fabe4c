"""Where sets are looked for, checksums, downloads from a local server, and what the errors say."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import synthetic_data as synthetic

from hypersphere import data
from hypersphere.data import mnist as mnist_module
from hypersphere.data._download import Remote, fetch
from hypersphere.data._store import Store, default_root


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A web server on this machine: its address and the folder that it serves."""
    folder = tmp_path / "site"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_GET(self) -> None:
            if self.path == "/short.bin":  # promises 100 bytes, sends 10
                self.send_response(200)
                self.send_header("Content-Length", "100")
                self.end_headers()
                self.wfile.write(b"0123456789")
            else:
                super().do_GET()

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    server.server_close()
    thread.join()


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def test_root_then_variable_then_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HYPERSPHERE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert default_root() == tmp_path / "cache" / "hypersphere" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_root().parts[-2:] == ("hypersphere", "data")
    monkeypatch.setenv("HYPERSPHERE_DATA", str(tmp_path / "variable"))
    synthetic.write_mnist(tmp_path / "variable" / "MNIST" / "raw")
    synthetic.write_mnist(tmp_path / "given" / "MNIST" / "raw")
    synthetic.write_idx(tmp_path / "given" / "MNIST/raw/t10k-labels-idx1-ubyte", synthetic.np.array([1, 1, 1]))
    assert data.load("mnist", verify=False).test.labels.tolist() == [9, 0, 9]
    assert data.load("mnist", tmp_path / "given", verify=False).test.labels.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("name", "write", "file"),
    [
        ("mnist", lambda root: synthetic.write_mnist(root / "MNIST/raw"), "train-images-idx3-ubyte"),
        ("mnist", lambda root: synthetic.write_mnist(root / "MNIST/raw", compress=True), "train-images-idx3-ubyte.gz"),
        ("cifar10", synthetic.write_cifar10, "data_batch_1"),
        ("cifar100", synthetic.write_cifar100, "train"),
        ("lfw", synthetic.write_lfw, "pairs.txt"),
        ("omniglot", lambda root: synthetic.write_omniglot(root / "x", root), "omniglot_105_packbits.npz"),
        ("modelnet40", synthetic.write_modelnet, "modelnet40_train_1024_int16.npz"),
        ("cora", synthetic.write_planetoid, "ind.cora.test.index"),
    ],
)
def test_a_wrong_checksum_names_the_file(tmp_path: Path, name: str, write: Callable[[Path], object], file: str) -> None:
    write(tmp_path)
    with pytest.raises(
        ValueError, match=rf"{file} has MD5 [0-9a-f]{{32}}, the published file [0-9a-f]{{32}}: delete it"
    ):
        data.load(name, tmp_path, download=False)


def test_missing_sets_say_what_goes_where(tmp_path: Path) -> None:
    for name in data.list_datasets():
        if name == "digits":
            continue
        with pytest.raises(FileNotFoundError) as caught:
            data.load(name, tmp_path, download=False)
        message = str(caught.value)
        assert repr(name) in message
        assert str(tmp_path) in message
        assert "HYPERSPHERE_DATA" in message
        if name not in (
            "casia",
            "cub",
            "folder",
            "imagenet",
            "imdb_face",
            "megaface",
            "miniimagenet",
            "ms_celeb",
            "ytf",
        ):
            assert "from:    http" in message
            assert "missing: " in message


def test_no_network_is_a_helpful_error(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9"  # the discard port: nothing listens
    with pytest.raises(FileNotFoundError) as caught:
        data.load("mnist", tmp_path, mirror=nowhere, progress=False)
    message = str(caught.value)
    assert "download failed" in message
    assert "train-images-idx3-ubyte" in message
    assert str(tmp_path / "MNIST/raw") in message
    assert "https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz" in message
    assert not list(tmp_path.rglob("*.gz"))


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_download_then_read(
    site: tuple[str, Path], tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, folder = site
    synthetic.write_mnist(folder, compress=True)
    gz = [md5((folder / f"{name}.gz").read_bytes()) for name in mnist_module.FILES]
    raw = [md5(gzip.decompress((folder / f"{name}.gz").read_bytes())) for name in mnist_module.FILES]
    layout = mnist_module._layout(("MNIST/raw",), "https://unused.example", tuple(gz))
    monkeypatch.setattr(mnist_module, "MNIST", layout)
    monkeypatch.setattr(mnist_module, "MD5_MNIST", tuple(raw))
    root = tmp_path / "root"
    mirror = address if scheme == "http" else folder.as_uri()
    assert data.load("mnist", root, mirror=mirror).test.labels.tolist() == [9, 0, 9]
    kept = sorted(path.name for path in (root / "MNIST/raw").iterdir())
    assert kept == sorted(f"{name}.gz" for name in mnist_module.FILES)
    assert len(data.load("mnist", root, mirror="http://127.0.0.1:9").train) == 7  # the second time from disk


def test_an_altered_download_is_refused_and_not_kept(site: tuple[str, Path], tmp_path: Path) -> None:
    address, folder = site
    synthetic.write_mnist(folder, compress=True)
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz has MD5 .* nothing was kept"):
        data.load("mnist", tmp_path / "root", mirror=address, progress=False)
    assert not [path for path in (tmp_path / "root").rglob("*") if path.is_file()]


def test_a_broken_connection_leaves_nothing(site: tuple[str, Path], tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"broke off after 10 of 100 bytes|IncompleteRead"):
        fetch(Remote(f"{site[0]}/short.bin", "out/short.bin"), tmp_path / "root", progress=False)
    assert not [path for path in (tmp_path / "root").rglob("*") if path.is_file()]


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_archives_are_unpacked_beside_what_is_there(site: tuple[str, Path], tmp_path: Path, kind: str) -> None:
    address, folder = site
    archive = folder / f"set.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as out:
            out.writestr("set/a/one.txt", "1")
    else:
        with tarfile.open(archive, "w:gz") as out:
            member = tarfile.TarInfo("set/a/one.txt")
            member.size = 1
            out.addfile(member, io.BytesIO(b"1"))
    root = tmp_path / "root"
    (root / "set" / "a").mkdir(parents=True)
    (root / "set" / "a" / "two.txt").write_text("2")
    fetch(Remote(f"{address}/set.{kind}", "", md5(archive.read_bytes()), unpack=True), root, progress=False)
    assert sorted(path.name for path in root.rglob("*.txt")) == ["one.txt", "two.txt"]
    assert [path.name for path in root.iterdir()] == ["set"]


def test_an_archive_cannot_write_elsewhere(site: tuple[str, Path], tmp_path: Path) -> None:
    address, folder = site
    with tarfile.open(folder / "bad.tar", "w") as out:
        member = tarfile.TarInfo("../../escaped.txt")
        member.size = 1
        out.addfile(member, io.BytesIO(b"1"))
    (folder / "text.zip").write_text("<html>not found</html>")
    for name in ("bad.tar", "text.zip"):
        with pytest.raises(ValueError, match=f"{name} is not a readable archive"):
            fetch(Remote(f"{address}/{name}", "", unpack=True), tmp_path / "root", progress=False)
    assert not list(tmp_path.rglob("escaped.txt"))


@pytest.mark.parametrize("rich", [True, False])
def test_progress_is_shown(
    site: tuple[str, Path],
    tmp_path: Path,
    rich: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address, folder = site
    (folder / "big.bin").write_bytes(bytes(3 << 20))
    if not rich:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    fetch(Remote(f"{address}/big.bin", "big.bin"), tmp_path / "root")
    shown = capsys.readouterr().err
    assert "big.bin" in shown
    assert (r"big.bin: 3.0 MiB (100%)" in shown) or rich
    assert (tmp_path / "root" / "big.bin").stat().st_size == 3 << 20


def test_unknown_names_and_misplaced_options(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="did you mean 'cifar10'"):
        data.load("cifar-10")
    synthetic.write_planetoid(tmp_path)
    with pytest.raises(ValueError, match="imbalance='single' is for image sets"):
        data.load("cora", tmp_path, verify=False, imbalance="single")


def test_listing_and_availability(tmp_path: Path) -> None:
    assert data.list_datasets("cifar*") == ["cifar10", "cifar100"]
    assert {"lfw", "omniglot", "modelnet40", "cora", "digits", "imagenet"} <= set(data.list_datasets())
    assert all(data.describe(name) for name in data.list_datasets())
    assert data.available("digits", tmp_path)
    assert not data.available("mnist", tmp_path)
    assert not data.available("imagenet", tmp_path)
    synthetic.write_mnist(tmp_path / "MNIST/raw")
    assert data.available("mnist", tmp_path)
    assert Store("mnist", tmp_path, verify=False).read(tmp_path / "MNIST/raw/t10k-labels-idx1-ubyte", "x")
