"""Settings that are declared once: what a field of a frozen dataclass takes, in which unit, and in which words.

A field is one line of a class:

    delta: Annotated[float, Setting("Probability allowed for a wrong statement.", FRACTION)] = 0.05

The type, the default and the `Setting` are all that is ever said of it. Constructors check by it, files keep its value,
the service, TOML and commands offer it, and documentation and reports name it: each of them asks `declared`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from textwrap import fill
from types import NoneType
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True)
class Range:
    """Which values a setting takes.

    kind:
        int, float, bool, str, list (of numbers), dict (tables, a list of them), or object (no plain value: no file,
        request or command can hold it).
    check:
        Returns a value as it is kept, or raises `InputError`; called with the setting's name and the value.
    least, above, below, most:
        Ends of a range of numbers, those that belong to it and those that do not.
    choices:
        The words of which it is one.
    of:
        Of tables: the class that declares what each holds.

    >>> Range(int, lambda name, value: value, least=1).words
    'a whole number of at least 1'
    """

    kind: type
    check: Callable[[str, Any], Any]
    least: float | None = None
    above: float | None = None
    below: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    of: type | None = None

    @property
    def words(self) -> str:
        """What it takes, in words."""
        if self.choices:
            words = [f'"{word}"' for word in self.choices]
            return " or ".join([*words, "numbers"] if self.kind is list else words)
        if self.of is not None:
            return f"a list of tables with {', '.join(declared(self.of))}"
        ends = {"of at least": self.least, "above": self.above, "below": self.below, "at most": self.most}
        said = [f"{word} {end:g}" for word, end in ends.items() if end is not None]
        return " ".join([_WORDS[self.kind], " and ".join(said)]).strip()


_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    list: "numbers",
    dict: "",
    object: "",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """What is said of a setting where it is declared, beside its name, type and default.

    says:
        What it does, in a sentence or two.
    takes:
        Its values.
    unit:
        What its numbers count.
    proved:
        Whether the proofs of all claims have been read with it; where they have not, it is refused
        (`comband.certify.claims`).
    """

    says: str
    takes: Range
    unit: str = ""
    proved: bool = False


@dataclass(frozen=True, slots=True)
class Declared:
    """A setting as its class declares it; `group` is the class, and `optional` says whether it may be None."""

    name: str
    setting: Setting
    default: Any
    optional: bool
    group: type

    @property
    def required(self) -> bool:
        """Whether it must be said."""
        return self.default is MISSING

    @property
    def plain(self) -> bool:
        """Whether a file, a request or a command can hold its values."""
        return self.setting.takes.kind is not object

    def check(self, value: Any) -> Any:
        """The value as it is kept."""
        return None if value is None and self.optional else self.setting.takes.check(self.name, value)

    @property
    def words(self) -> str:
        """What it takes and what it is by default, in words."""
        takes, unit = self.setting.takes.words, self.setting.unit
        default = "" if self.required or self.default in (None, ()) else f"{shown(self.default)} by default"
        return "; ".join(part for part in (f"{takes}, in {unit}" if unit else takes, default) if part)


_FOUND: dict[type, dict[str, Declared]] = {}


def declared(spec: type) -> dict[str, Declared]:
    """The settings of a dataclass by name, in their order; fields without a `Setting` are none.

    >>> import comband as cb
    >>> list(declared(cb.Problem))[:3]
    ['n_actions', 'list_size', 'sparsity']
    """
    if spec in _FOUND:
        return _FOUND[spec]
    owners = {name: one for one in spec.__mro__[::-1] for name in vars(one).get("__annotations__", {})}
    hints = get_type_hints(spec, include_extras=True)
    found = _FOUND[spec] = {}
    for field in fields(spec):
        hint = hints[field.name]
        said = [part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Setting)]
        if said:
            inner = get_args(hint)[0] if get_origin(hint) is Annotated else hint
            optional = inner is Any or NoneType in get_args(inner)
            found[field.name] = Declared(field.name, said[0], field.default, optional, owners[field.name])
    return found


class Checked:
    """A frozen dataclass whose fields are checked as they are declared.

    Values are kept as their checks return them. A class says in `check_together` what its fields must be to each other.
    """

    def __post_init__(self) -> None:
        for name, one in declared(type(self)).items():
            object.__setattr__(self, name, one.check(getattr(self, name)))
        self.check_together()

    def check_together(self) -> None:
        """Raise `InputError` where fields do not go together."""


def said(spec: Any) -> dict[str, Any]:
    """The settings that differ from their defaults, by name.

    >>> import comband as cb
    >>> said(cb.Problem(n_actions=9, list_size=3, feedback="total"))
    {'n_actions': 9, 'list_size': 3, 'feedback': 'total'}
    """
    values = {name: (getattr(spec, name), one.default) for name, one in declared(type(spec)).items()}
    return {name: value for name, (value, default) in values.items() if value is not default and value != default}


def plain(spec: Any) -> dict[str, Any]:
    """The settings that a file can hold, by name; one whose value is an object is left out."""
    values = {name: getattr(spec, name) for name, one in declared(type(spec)).items() if one.plain}
    return {
        name: [plain(one) if isinstance(one, Checked) else one for one in value] if isinstance(value, tuple) else value
        for name, value in values.items()
        if value is None or isinstance(value, (bool, int, float, str, tuple))
    }


def table(*specs: Any) -> list[tuple[str, str, str]]:
    """What was declared: rows of name, value with its unit, and what it is.

    >>> import comband as cb
    >>> table(cb.Problem(n_actions=9, list_size=3, sparsity=1))[1]
    ('list_size', '3 items', 'How many are shown at once, m.')
    """
    rows = []
    for spec in specs:
        for name, one in declared(type(spec)).items():
            if one.plain:
                value, unit = getattr(spec, name), one.setting.unit
                text = shown(value) if isinstance(value, (NoneType, bool, int, float, str, tuple)) else "one of its own"
                number = isinstance(value, (int, float)) and not isinstance(value, bool)
                rows.append((name, f"{text} {unit}" if unit and number else text, one.setting.says))
    return rows


def shown(value: Any) -> str:
    """A value of a setting as people read it."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        few = ", ".join(shown(one) for one in value[:10])
        return few if len(value) <= 10 else f"{few}, … ({len(value):,} in all)"
    return f"{value:,}" if isinstance(value, int) else f"{value:,g}" if isinstance(value, float) else str(value)


def markdown(*specs: type) -> str:
    """All settings as tables of a page, one for each group."""
    lines = []
    for spec in specs:
        for group, settings in groups(spec):
            text = (group.__doc__ or "").rstrip(".")
            title = text if text.isprintable() and len(text) < 40 else group.__name__
            lines += ["", f"## {title}", "", "| setting | takes | what it is |", "|---|---|---|"]
            lines += [f"| `{one.name}` | {one.words} | {one.setting.says} |" for one in settings]
    return "\n".join(lines[1:])


def parameters(spec: type) -> str:
    """The settings as a block of a docstring."""
    lines = []
    for name, one in declared(spec).items():
        words = f" ({one.words})" if one.words else ""
        indent = " " * 8
        lines += [
            f"    {name}:",
            fill(f"{one.setting.says}{words}", 120, initial_indent=indent, subsequent_indent=indent),
        ]
    return "\n".join(lines)


def documented(text: str | None, spec: type) -> str | None:
    """A docstring with the settings before its example."""
    if text is None or "Parameters\n" not in text:
        return text
    before, mark, after = text.partition("\n\n    >>>")
    return f"{before}\n{parameters(spec)}{mark}{after}"


Given = ParamSpec("Given")
Spec = TypeVar("Spec")
Made = TypeVar("Made")
First = TypeVar("First")
Second = TypeVar("Second")


def takes_settings(
    spec: Callable[Given, Spec],
) -> Callable[[Callable[[Made, First, Second, Spec], None]], Callable[Concatenate[Made, First, Second, Given], None]]:
    """Lets a constructor of two arguments and a spec be called with two arguments and the settings by name.

    Editors and type checkers see every setting with its type.
    """

    def wrap(
        init: Callable[[Made, First, Second, Spec], None],
    ) -> Callable[Concatenate[Made, First, Second, Given], None]:
        own = list(inspect.signature(init).parameters.values())[:3]
        names = [own[1].name, own[2].name]

        @wraps(init)
        def made(self: Any, *args: Any, **settings: Any) -> None:
            signature.bind(self, *args, **settings)
            rest = [settings.pop(name) for name in names[len(args) :]]
            init(self, *args, *rest, spec(**settings))  # type: ignore[call-arg]

        types = get_type_hints(spec)
        stated = [one.replace(annotation=types[one.name]) for one in inspect.signature(spec).parameters.values()]
        signature = inspect.Signature([*own, *stated])
        made.__signature__ = signature  # type: ignore[attr-defined]
        return made  # type: ignore[return-value]

    return wrap


def chosen(words: Sequence[str], check: Callable[[str, Any, Sequence[str]], str]) -> Range:
    """One of some words."""
    return Range(str, lambda name, value: check(name, value, words), choices=tuple(words))


def groups(spec: type) -> Iterator[tuple[type, list[Declared]]]:
    """The settings by the class that declares them, in order."""
    found: dict[type, list[Declared]] = {}
    for one in declared(spec).values():
        found.setdefault(one.group, []).append(one)
    yield from found.items()
