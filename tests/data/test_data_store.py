"""Where sets are looked for, checksums, downloads from a local server, and what the errors say."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import os
import random
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
from hypersphere._core import leftovers
from hypersphere.data import _unpack
from hypersphere.data import mnist as mnist_module
from hypersphere.data._download import Remote, fetch
from hypersphere.data._store import Store, default_root
from hypersphere.data._unpack import unpack


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
    with pytest.raises(OSError, match=r"ended after 10 of 100 bytes|IncompleteRead"):
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


# Archives that are not what they seem ---------------------------------------------------------------


def zip_bomb(path):
    """Two kilobytes that declare, and hold, two megabytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as content:
        content.writestr("zeros", bytes(2 << 20))


def lying_zip(path):
    """As many, declared as ten bytes in both headers."""
    zip_bomb(path)
    size = (2 << 20).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, (10).to_bytes(4, "little")))


def tar_bomb(path):
    with tarfile.open(path, "w:gz") as content:
        member = tarfile.TarInfo("zeros")
        member.size = 2 << 20
        content.addfile(member, io.BytesIO(bytes(member.size)))


def encrypted_zip(path):
    with zipfile.ZipFile(path, "w") as content:
        content.writestr("secret", b"12 bytes too")
    raw = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(signature) + offset] |= 1  # the bit that says so
    path.write_bytes(bytes(raw))


def climbing_zip(path):
    with zipfile.ZipFile(path, "w") as content:
        content.writestr("../outside", b"x")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (zip_bomb, "bomb is not unpacked: it declares 2,097,152 bytes"),
        (lying_zip, "bomb is not a readable archive|bomb cannot be unpacked"),
        (tar_bomb, "bomb is not unpacked: it declares 2,097,152 bytes"),
        (encrypted_zip, "bomb cannot be unpacked: .*encrypted"),
        (climbing_zip, "outside of the folder"),
    ],
)
def test_archives_are_limited_by_what_they_declare_and_by_what_comes_out(make, message, tmp_path, monkeypatch):
    monkeypatch.setattr(_unpack, "FREE", 1 << 20)
    make(tmp_path / "bomb")
    with pytest.raises(ValueError, match=message):
        unpack(tmp_path / "bomb", tmp_path / "content")
    assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file() and file.name != "bomb") <= 10
    assert not (tmp_path / "outside").exists()


def test_a_gzip_file_that_holds_too_much_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(_unpack, "FREE", 1 << 20)
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes(2 << 20)))
    with pytest.raises(ValueError, match=r"ubyte\.gz is not read: more than 1,048,576 bytes come out of it"):
        Store("mnist", tmp_path).read(tmp_path / "train-labels-idx1-ubyte")


def test_what_a_killed_download_left_is_swept_and_what_is_in_use_is_not(tmp_path):
    gone = tmp_path / f".partial-{2**22 + 1}@{leftovers._HOST}-x"
    used = tmp_path / f".partial-{os.getpid()}@{leftovers._HOST}-x"
    elsewhere = tmp_path / f".partial-{2**22 + 1}@another-x"
    for folder in (gone, used, elsewhere):
        folder.mkdir()
    leftovers.sweep(tmp_path, ".partial-")
    assert sorted(tmp_path.iterdir()) == sorted([used, elsewhere])
    os.utime(elsewhere, (0, 0))
    leftovers.sweep(tmp_path, ".partial-")
    assert list(tmp_path.iterdir()) == [used]


@pytest.mark.parametrize("name", ["cifar10", "mnist", "modelnet40", "omniglot", "cora"])
def test_wrong_bytes_that_are_not_verified_end_in_a_message_that_names_the_file(name, tmp_path):
    if name == "omniglot":
        synthetic.write_omniglot(tmp_path / "folders", tmp_path)
    else:
        write = {"cifar10": "cifar10", "mnist": "mnist", "modelnet40": "modelnet", "cora": "planetoid"}[name]
        getattr(synthetic, f"write_{write}")(tmp_path / "MNIST/raw" if name == "mnist" else tmp_path)
    options = {"verify": False, "download": False, **({"points": 8} if name == "modelnet40" else {})}
    data.load(name, tmp_path, **options)
    files = [file for file in sorted(tmp_path.rglob("*")) if file.is_file() and "folders" not in file.parts]
    chance = random.Random(name)
    for _ in range(25):
        file = chance.choice(files)
        whole = file.read_bytes()
        place, length = chance.randrange(len(whole)), chance.choice((1, 3, 30))
        change = chance.choice((b"", bytes(chance.randrange(256) for _ in range(length)), whole[:length]))
        file.write_bytes(whole[:place] + change + whole[place + length :])
        try:
            data.load(name, tmp_path, **options)
        except ValueError as error:
            assert str(tmp_path) in str(error), error  # noqa: PT017
        file.write_bytes(whole)
