"""The lines of the control socket."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crond_py.control import protocol
from crond_py.control.codec import from_json, instant_text, to_json
from crond_py.errors import (
    CrontabError,
    Fault,
    LedgerCorruptError,
    LedgerError,
    ProtocolError,
    PycronError,
    RequestRefusedError,
    UnknownNameError,
)
from crond_py.model import Run
from tests.unit.control.fakes import ENDED, RUNNING


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        (protocol.Ping(), b'{"v":1,"op":"ping","args":{}}\n'),
        (
            protocol.Trigger("backup", force=True),
            b'{"v":1,"op":"trigger","args":{"job":"backup","force":true}}\n',
        ),
        (protocol.CancelRun(7), b'{"v":1,"op":"cancel-run","args":{"run_id":7}}\n'),
        (protocol.CancelJob("a\nb"), b'{"v":1,"op":"cancel-job","args":{"job":"a\\nb"}}\n'),
        (
            protocol.WaitRun(7, timedelta(seconds=1.5)),
            b'{"v":1,"op":"wait-run","args":{"run_id":7,"limit":1.5}}\n',
        ),
        (protocol.Stop(now=True), b'{"v":1,"op":"stop","args":{"now":true}}\n'),
    ],
)
def test_a_request_is_one_line_and_is_read_back(
    request_: protocol.Request[Any], line: bytes
) -> None:
    """The bytes on the wire are as documented, one line even for a name with a newline in it."""
    assert protocol.request_line(request_) == line
    assert protocol.read_request(line) == request_


def test_what_a_request_leaves_out_has_its_default() -> None:
    """An older client, which does not know a new argument, is understood."""
    line = b'{"v": 1, "op": "trigger", "args": {"job": "backup", "colour": "blue"}}'
    assert protocol.read_request(line) == protocol.Trigger("backup", force=False)
    assert protocol.read_request(b'{"v": 1, "op": "ping"}') == protocol.Ping()


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (b"", "not a JSON object"),
        (b"\xff\xfe", "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b"[" * 60_000, "not a JSON object"),
        (b"1" * 60_000, "not a JSON object"),
        (b"{}", "version 1"),
        (b'{"v": 2, "op": "ping"}', "version 1"),
        (b'{"v": true, "op": "ping"}', "version 1"),
        (b'{"v": 1}', "no operation"),
        (b'{"v": 1, "op": ["ping"]}', "no operation"),
        (b'{"v": 1, "op": "format-disk"}', "no operation 'format-disk'"),
        (b'{"v": 1, "op": "ping", "args": []}', "not an object"),
        (b'{"v": 1, "op": "trigger", "args": {}}', "job is missing"),
        (b'{"v": 1, "op": "trigger", "args": {"job": 5}}', "job is not a string"),
        (b'{"v": 1, "op": "trigger", "args": {"job": "a", "force": 1}}', "force is not true"),
        (b'{"v": 1, "op": "cancel-run", "args": {"run_id": "7"}}', "run_id is not a whole"),
        (b'{"v": 1, "op": "cancel-run", "args": {"run_id": true}}', "run_id is not a whole"),
        (b'{"v": 1, "op": "cancel-run", "args": {"run_id": 7.0}}', "run_id is not a whole"),
        (b'{"v": 1, "op": "wait-run", "args": {"run_id": 7, "limit": NaN}}', "limit is not a"),
        (b'{"v": 1, "op": "wait-run", "args": {"run_id": 7, "limit": 1e300}}', "limit is not a"),
    ],
)
def test_junk_is_named(line: bytes, word: str) -> None:
    """What is not a request is refused in a sentence that says what is wrong with it."""
    with pytest.raises(ProtocolError, match=word):
        protocol.read_request(line)


KEYS = st.text() | st.sampled_from(["v", "op", "args"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_request_or_a_protocol_error(line: bytes) -> None:
    """No line makes the reader raise anything but ProtocolError."""
    try:
        protocol.read_request(line)
    except ProtocolError:
        return


@pytest.mark.parametrize("run", [RUNNING, ENDED])
def test_a_run_survives_the_journey(run: Run) -> None:
    """Instants, spans, enums, attempts and exits come out as they went in."""
    wire = json.loads(json.dumps(to_json(run)))
    assert from_json(Run, wire) == run
    assert wire["due"].endswith("Z")


INSTANTS = st.datetimes(
    min_value=datetime(1970, 1, 1),  # noqa: DTZ001 - given their zone below
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=-3, minutes=-30))]),
)


@given(INSTANTS)
def test_an_instant_is_utc_on_the_wire(instant: datetime) -> None:
    """RFC 3339 with Z, to the microsecond, whatever zone it had."""
    text = instant_text(instant)
    assert text.endswith("Z")
    assert datetime.fromisoformat(text) == instant


@pytest.mark.parametrize(
    ("error", "class_"),
    [
        (UnknownNameError("no job 'x'"), UnknownNameError),
        (RequestRefusedError("not now"), RequestRefusedError),
        (LedgerCorruptError("damaged"), LedgerError),
        (ProtocolError("junk"), ProtocolError),
        (PycronError("something"), PycronError),
    ],
)
def test_an_error_is_raised_on_the_other_side(
    error: PycronError, class_: type[PycronError]
) -> None:
    """The client leaves with the exit code and the sentence of the daemon's error."""
    with pytest.raises(class_) as caught:
        protocol.read_reply(protocol.Ping(), protocol.error_line(error))
    assert type(caught.value) is class_
    assert str(caught.value) == str(error)


def test_every_fault_of_a_crontab_crosses() -> None:
    """P7: a refused reload names each fault with file, line and key to who asked for it."""
    faults = (
        Fault("/etc/c.toml", 3, "jobs.a.overlpa", "unknown key", 'did you mean "overlap"?'),
        Fault("/etc/c.toml", 9, "jobs.b", "has no schedule"),
    )
    with pytest.raises(CrontabError) as caught:
        protocol.read_reply(protocol.Reload(), protocol.error_line(CrontabError(faults)))
    assert caught.value.faults == faults


@pytest.mark.parametrize(
    "line",
    [b"{}", b"junk", b'{"v":1}', b'{"v":1,"result":{"pid":"x"}}', b'{"v":1,"error":7}'],
)
def test_a_bad_answer_is_a_protocol_error(line: bytes) -> None:
    """A client that meets another program on the socket says so and does not fall over."""
    with pytest.raises(ProtocolError):
        protocol.read_reply(protocol.Ping(), line)


def test_an_error_that_is_not_known_is_still_an_error() -> None:
    """A newer daemon's kind of error is a general one here, with its sentence."""
    line = b'{"v":1,"error":{"kind":"on_fire","message":"it burns"}}'
    with pytest.raises(PycronError, match="it burns"):
        protocol.read_reply(protocol.Ping(), line)
