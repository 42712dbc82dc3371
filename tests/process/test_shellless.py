"""A text for the shell is executed without one where that does the same, and only there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crond_py.runner.procfile import read
from crond_py.runner.shellless import physical_directory, split_simple, without_shell
from tests.process.conftest import Harness

SHELLS = [path for name in ("dash", "bash") if (path := shutil.which(name))]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/bin/true", ("/bin/true",)),
        ("  backup --all\t/srv ", ("backup", "--all", "/srv")),
        ("prog 'a b' \"c d\"", ("prog", "a b", "c d")),
        ("prog x'y z'\"w\"", ("prog", "xy zw")),
        ("prog '' \"\"", ("prog", "", "")),
        ("prog '$HOME' '*' '\\n' '#'", ("prog", "$HOME", "*", "\\n", "#")),
        ("prog --level=3 a:b,c@d%e+f", ("prog", "--level=3", "a:b,c@d%e+f")),
    ],
)
def test_splits_a_simple_command(text: str, words: tuple[str, ...]) -> None:
    """Blanks part words, and quotes hold together what is between them."""
    assert split_simple(text) == words


@pytest.mark.parametrize(
    "text",
    [
        "", "  ", "a; b", "a | b", "a && b", "a &", "a > f", "a < f", "(a)", "{ a; }", "! a",
        "a $x", "a `b`", 'a "$x"', 'a "\\n"', "a \\b", "a *", "a ?", "a [b]", "a ~", "a {b,c}",
        "a #b", "a\nb", "a 'b\nc'", "a 'b", 'a "b', "a 'ä'", "a ä", "x=1 a", "x=1", "'a' b",
        "%1", "exit 3", ". /f", ": x", "cd /tmp", "echo a", "printf a", "test -f a", "true", "if",
        "time a", "exec a", "[[ a ]]", "a !", "a ^b",
        "setsid a", "env -i /usr/bin/setsid a",
    ],
)  # fmt: skip
def test_leaves_the_rest_to_the_shell(text: str) -> None:
    """Whatever a shell would do anything with is not for us to split."""
    assert split_simple(text) is None


@given(st.text(alphabet=" \tab/=%:@,.-+'\"$*\\~#;&(!{", max_size=24), st.sampled_from(SHELLS))
def test_splits_as_shells_do(arguments: str, shell: str) -> None:
    """What is split here at all, dash and bash split in the same way."""
    words = split_simple(f"/usr/bin/printf '<%s>' {arguments}")
    if words is not None:
        told = subprocess.run(
            [shell, "-c", f"/usr/bin/printf '<%s>' {arguments}"], capture_output=True, check=True
        )
        assert told.stdout.decode() == "".join(f"<{word}>" for word in words[2:] or ("",))


def test_takes_no_shell(harness: Harness) -> None:
    """The process that is started is the program itself."""
    fifo = harness.fifo("fifo")
    key = harness.start(f"cat {fifo}")
    pid = harness.started(key).pid
    writer = os.open(fifo, os.O_WRONLY)  # it comes back once cat has opened the other end
    assert (read(f"/proc/{pid}/cmdline") or b"").split(b"\0")[:2] == [b"cat", os.fsencode(fifo)]
    os.close(writer)
    assert harness.ended(key).exit.code == 0


@pytest.mark.parametrize("variables", [{}, {"PATH": "/nowhere:/usr/bin:/bin"}])
def test_gives_what_the_shell_gives(harness: Harness, variables: dict[str, str]) -> None:
    """The environment is the same as with a shell in between, PWD included."""
    place = harness.directory / "place"
    place.mkdir()
    link = harness.directory / "link"
    link.symlink_to(place)
    own = {"PYCRON_RUN_ID", "SHLVL", "_"}  # of the run; and bash sets two more

    def environment(command: str) -> set[str]:
        told = harness.output_of(command, cwd=str(link), env=variables).decode().splitlines()
        return {line for line in told if line.partition("=")[0] not in own}

    assert environment("/usr/bin/env") == environment("/usr/bin/env; :")
    assert f"PWD={physical_directory(str(link))}" in environment("env")


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("no-such-program-anywhere", 127, b"not found"),
        ("./no-such-program", 127, b"o such file|not found"),
        ("./not-executable", 126, b"ermission denied"),
        ("./directory", 126, b"ermission denied|s a directory"),
    ],
)
def test_fails_as_the_shell_does(harness: Harness, command: str, code: int, words: bytes) -> None:
    """What cannot be executed is told by the shell, with its status."""
    (harness.directory / "not-executable").write_text("#!/bin/sh\n")
    (harness.directory / "directory").mkdir()
    output = harness.directory / "output"
    assert harness.run(command, output=output).exit.code == code
    assert any(each in output.read_bytes() for each in words.split(b"|"))


def test_runs_a_script_without_a_first_line(harness: Harness) -> None:
    """The kernel does not execute it; the shell reads it itself."""
    script = harness.directory / "script"
    script.write_text("echo $0 $1 read by a shell\n")
    script.chmod(0o755)
    assert harness.output_of(f"{script} 7").decode() == f"{script} 7 read by a shell\n"


@pytest.mark.parametrize(
    "env",
    [
        {"BASH_FUNC_env%%": "() { :; }"},
        {"SHELLOPTS": "noexec"},
        {"ENV": "/dev/null"},
        {"PWD": "/"},
        {"PATH": "/usr/bin%func:/usr/bin"},
        {"PATH": ":/usr/bin"},
        {"PATH": ""},
    ],
)
def test_takes_the_shell_where_its_environment_matters(
    harness: Harness, env: dict[str, str]
) -> None:
    """What the shell itself would heed is left to it."""
    spec = harness.spec("sleep 9", env=env)
    assert without_shell(spec, spec.env) is None
    assert without_shell(harness.spec("sleep 9"), {"PATH": "/usr/bin"}) == ("sleep", "9")


def test_knows_only_the_system_shell(harness: Harness, tmp_path: Path) -> None:
    """A shell of the job's own gets its text, whatever it is."""
    shell = tmp_path / "shell"
    shell.write_text('#!/bin/sh\necho "asked for: $2"\n')
    shell.chmod(0o755)
    spec = harness.spec("/bin/true", shell=str(shell))
    assert spec.text == "/bin/true"
    assert without_shell(spec, spec.env) is None
