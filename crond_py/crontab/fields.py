"""Tables with known keys: how one is read key by key, and its JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from crond_py.crontab.elsewhere import key_of, known_elsewhere
from crond_py.crontab.faults import Problem, Refused, dotted, nearest
from crond_py.crontab.locate import KeyPath
from crond_py.crontab.values import Kind, Name, Never, Schema, not_the
from crond_py.dataclass import dataclass

Refuse = Callable[[KeyPath, Refused], None]
"""Takes a refusal and where it belongs, seen from the table."""

_LARGEST_SHOWN: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a table: its name, its kind, a line for people, and its default in the model.

    ``in_defaults``: it may stand in ``[defaults]``.
    """

    name: str
    kind: Kind
    doc: str
    default: object = None
    in_defaults: bool = True

    @property
    def is_supported(self) -> bool:
        """Tell whether this version does what the key says."""
        return not isinstance(self.kind, Never)


def by_name(keys: Iterable[Key]) -> dict[str, Key]:
    """Return keys as ``read_fields`` wants them."""
    return {key.name: key for key in keys}


def read_fields(
    table: Mapping[str, Any], keys: Mapping[str, Key], refuse: Refuse
) -> dict[str, Any]:
    """Return the values of a table that are good; tell ``refuse`` of those that are not."""
    values: dict[str, Any] = {}
    for name, value in table.items():
        key = keys.get(name)
        if key is None:
            refuse((name,), _unknown(name, value, keys))
            continue
        try:
            values[name] = key.kind.read(value)
        except Refused as refused:
            refuse((name,), refused)
    return values


def _unknown(name: str, value: object, keys: Mapping[str, Key]) -> Refused:
    supported = [key.name for key in keys.values() if key.is_supported]
    hint = known_elsewhere(name, value, supported, keys) or key_of(name) or nearest(name, supported)
    if not hint and "jobs" in supported and isinstance(value, dict):
        hint = f"a job is a table [{dotted(('jobs', name))}]"
    return Refused("is not a key that is known here", hint)


@dataclass(frozen=True, slots=True)
class Fields(Kind):
    """A table with keys of its own, as the value of a key."""

    keys: Mapping[str, Key]
    required: tuple[str, ...] = ()
    number: str = ""
    """The key that is meant by somebody who writes a number in place of the table."""

    def read(self, value: object) -> dict[str, Any]:
        """Return the values of the keys that are there."""
        if not isinstance(value, dict):
            raise not_the("a table", value, self._number_as_table(value))
        problems: list[Problem] = []

        def refuse(path: KeyPath, refused: Refused) -> None:
            problems.extend(problem.below(path) for problem in refused.problems)

        values = read_fields(value, self.keys, refuse)
        problems += [Problem((), f"has no {name}") for name in self.required if name not in value]
        if problems:
            raise Refused(problems=problems)
        return values

    def _number_as_table(self, value: object) -> str:
        if not self.number or type(value) is not int or abs(value) > _LARGEST_SHOWN:
            return ""
        return f"write {{ {self.number} = {value} }}"

    def schema(self) -> Schema:
        """Return the schema of an object with these keys and no others."""
        schema = fields_schema(self.keys.values())
        return schema | {"required": list(self.required)} if self.required else schema


@dataclass(frozen=True, slots=True)
class Named(Kind):
    """A table of tables, each under a name that its owner chose."""

    each: Fields
    name: Kind = Name()

    def read(self, value: object) -> dict[str, Any]:
        """Return what the tables hold, by name."""
        if not isinstance(value, dict):
            raise not_the("a table of tables with names", value)
        problems: list[Problem] = []
        values = {}
        for name, table in value.items():
            for kind, part in ((self.name, name), (self.each, table)):
                try:
                    values[name] = kind.read(part)
                except Refused as refused:
                    problems += [problem.below((name,)) for problem in refused.problems]
        if problems:
            raise Refused(problems=problems)
        return values

    def schema(self) -> Schema:
        """Return the schema of an object whose properties are names."""
        return {
            "type": "object",
            "propertyNames": self.name.schema(),
            "additionalProperties": self.each.schema(),
        }


def fields_schema(keys: Iterable[Key]) -> Schema:
    """Return the schema of an object with these keys and no others."""
    properties: dict[str, Schema] = {}
    for key in keys:
        if key.is_supported:
            properties[key.name] = {"description": key.doc} | key.kind.schema()
            if key.default is not None:
                properties[key.name]["default"] = key.kind.write(key.default)
    return {"type": "object", "properties": properties, "additionalProperties": False}
