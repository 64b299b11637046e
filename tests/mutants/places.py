"""A module's source into all places at which one operator can be another one.

Each place is one change of one line: comparisons, `and` and `or`, `not`, arithmetic, `min` and
`max`, `any` and `all`, whole numbers, `True` and `False`, conditions, and what a function returns
that says yes or no. Texts, annotations, options of classes and what is logged are left alone. Pure.
"""

import ast
import io
import tokenize
from bisect import bisect_left

import msgspec

COMPARED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
COMPUTED: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
}
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LOGGERS = frozenset({"_log", "logging"})
_TEXTS = (ast.JoinedStr,)


class Place(msgspec.Struct, frozen=True, order=True, kw_only=True):
    """A piece of one line and what stands there instead."""

    line: int
    """From 1."""
    column: int
    """In characters, from 0."""
    old: str
    new: str
    within: str = ""
    """The function or class, such as `Budget.left`; "" at the top."""

    def changed(self, source: str) -> str:
        """Return the source with this change."""
        lines = source.splitlines(keepends=True)
        line = lines[self.line - 1]
        after = self.column + len(self.old)
        if line[self.column : after] != self.old:
            raise ValueError(f"line {self.line} has no {self.old!r} at column {self.column}")
        lines[self.line - 1] = line[: self.column] + self.new + line[after:]
        return "".join(lines)


def places(source: str) -> list[Place]:
    """Return every place of a module, each once, in its order."""
    reader = _Reader(source)
    reader.visit(ast.parse(source))
    return sorted(set(reader.found))


class _Reader(ast.NodeVisitor):
    """Walks over what is executed, and notes places."""

    def __init__(self, source: str) -> None:
        self.found: list[Place] = []
        self._lines = source.splitlines()
        self._tokens = _tokens(source)
        self._says_yes_or_no = False
        self._within: list[str] = []

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Pass over a text; before Python 3.12 its parts do not know where they stand."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._within.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._within.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._within.append(node.name)
        outside = self._says_yes_or_no
        self._says_yes_or_no = isinstance(node.returns, ast.Name) and node.returns.id == "bool"
        for part in (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body):
            self.visit(part)
        self._says_yes_or_no = outside
        self._within.pop()

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and self._says_yes_or_no:
            self._negate(node.value)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self._negate(node.test)
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = (node.left, *node.comparators)
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            self._between(left, right, *COMPARED[type(operator)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, *words)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        signs = COMPUTED.get(type(node.op))
        if signs and not (_is_text(node.left) or _is_text(node.right)):
            self._between(node.left, node.right, *signs)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._note(node, "not ", "")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in CALLED:
            self._note(node.func, node.func.id, CALLED[node.func.id])
        if not _is_logging(node.func):
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._note(node, str(node.value), str(not node.value))
        elif isinstance(node.value, int):
            self._note(node, self._text(node), str(node.value + 1))

    def _negate(self, node: ast.expr) -> None:
        if isinstance(node, ast.UnaryOp | ast.Constant):
            return  # `not` is dropped, and a constant is another one, by themselves
        text = self._text(node)
        if text:
            self._note(node, text, f"not ({text})")

    def _text(self, node: ast.expr) -> str:
        """Return the source of an expression, "" where it takes more than one line."""
        if node.lineno != node.end_lineno:
            return ""
        line = self._lines[node.lineno - 1].encode()
        return line[node.col_offset : node.end_col_offset].decode()

    def _note(self, node: ast.expr, old: str, new: str) -> None:
        self._add(node.lineno, self._column(node.lineno, node.col_offset), old, new)

    def _add(self, line: int, column: int, old: str, new: str) -> None:
        if self._lines[line - 1].startswith(old, column):
            within = ".".join(self._within)
            self.found.append(Place(line=line, column=column, old=old, new=new, within=within))

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """Note the operator between two operands, where brackets may stand as well."""
        begin = left.end_lineno or 0, self._column(left.end_lineno or 0, left.end_col_offset or 0)
        end = right.lineno, self._column(right.lineno, right.col_offset)
        for line, column, text in self._tokens[bisect_left(self._tokens, begin) :]:
            if (line, column) >= end:
                return
            if text == old.split(maxsplit=1)[0]:
                self._add(line, column, old, new)
                return

    def _column(self, line: int, offset: int) -> int:
        """Return the place in characters of a place in bytes."""
        return len(self._lines[line - 1].encode()[:offset].decode())


def _tokens(source: str) -> list[tuple[int, int, str]]:
    """Return line, column and text of every token but comments and texts."""
    read = tokenize.generate_tokens(io.StringIO(source).readline)
    kinds = (tokenize.OP, tokenize.NAME)
    return [(*token.start, token.string) for token in read if token.type in kinds]


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, _TEXTS) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _is_logging(called: ast.expr) -> bool:
    return (
        isinstance(called, ast.Attribute)
        and isinstance(called.value, ast.Name)
        and called.value.id in _LOGGERS
    )
