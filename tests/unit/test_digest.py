"""SHA-256 without OpenSSL, beside that of hashlib."""

from __future__ import annotations

import hashlib
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from crond_py.digest import sha256


@given(st.binary())
def test_it_is_what_hashlib_makes(data: bytes) -> None:
    """For all bytes."""
    assert sha256(data) == hashlib.sha256(data).digest()


def test_a_python_without_its_own_has_that_of_hashlib() -> None:
    """Interpreters may be built with OpenSSL's alone."""
    program = (
        "import sys; sys.modules['_sha2'] = sys.modules['_sha256'] = None\n"
        "from crond_py.digest import sha256; print(sha256(b'abc').hex())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    # FIPS 180-4, the example of one block
    assert done.stdout.startswith("ba7816bf8f01cfea414140de5dae2223")
