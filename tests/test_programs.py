"""Forks of the zygote are programs: output, exit status, signals, folder, environment, what is imported at first."""

import signal
import subprocess
import sys

import pytest

import programs


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("print('done')", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("raise SystemExit('no')", 1, "no\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
    ],
)
def test_status_and_output(code, status, said):
    done = programs.run(["-c", code])
    assert (done.returncode, done.stderr) == (status, said)
    assert done.stdout == ("done\n" if status == 0 else "")


def test_arguments_folder_environment_and_errors(tmp_path):
    (tmp_path / "beside.py").write_text("NUMBER = 7")
    code = "import os, sys, beside; print(sys.argv[1:], os.environ['MINE'], beside.NUMBER); 1 / 0"
    (tmp_path / "script.py").write_text(code)
    for arguments in (["-c", code], ["-m", "script"], [tmp_path / "script.py"]):
        given = [*arguments, "a", 1]
        done = programs.run(given, cwd=tmp_path, env={"MINE": "yes", "PATH": ""})
        assert done.returncode == 1
        assert done.stdout == "['a', '1'] yes 7\n"
        assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_ctrl_c_and_waiting():
    program = programs.start(["-c", "import time; print('on', flush=True); time.sleep(60)"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)  # fmt: skip
    assert program.stdout.readline() == "on\n"
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(0.01)
    program.send_signal(signal.SIGINT)
    assert program.wait(60) == -signal.SIGINT
    assert program.stderr.read().endswith("KeyboardInterrupt\n")
    program.stdout.close(), program.stderr.close()


def test_a_bare_one_has_torch_alone_and_the_stand_in_is_a_python():
    code = "import sys; print(*(name in sys.modules for name in ('torch', 'torch._dynamo', 'hypersphere')))"
    assert programs.run(["-c", code], bare=True).stdout == "True False False\n"
    done = subprocess.run(
        [programs.python(), "-c", code + "; sys.exit(5)"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (5, "True True True\n")
    assert sys.executable != str(programs.python())
