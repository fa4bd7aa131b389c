"""The co_await rule (design.md 2): g++ 12 double-frees when co_await stands inside ?: or inside a braced initialiser. Await into a
named local first. This check reads each statement that holds a co_await: no `?` at any depth of it, no `{` list around it."""
import pathlib
import re
import subprocess
import sys

BLOCK_BEFORE = re.compile(r"(\)|\belse|\bdo|\btry|\bconst|\bnoexcept|\boverride|\bfinal|\bmutable|[;{}:]|^)\s*$")


def strip(text):
    """Comments, strings and character literals become blanks of the same length."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def statement_start(text, at):
    """Walks back to the start of the statement around `at`; returns (start, brace) where brace is the position of a braced
    initialiser that encloses it, or None."""
    depth, brace = 0, None
    i = at - 1
    while i >= 0:
        c = text[i]
        if c in ")]}":
            depth += 1
        elif c in "([":
            depth -= 1
        elif c == "{":
            if depth > 0:
                depth -= 1
            elif BLOCK_BEFORE.search(text[:i][-200:]) or re.search(r"->\s*[\w:<>,&*\s]+$", text[:i][-200:]):
                return i + 1, brace
            else:
                brace = i
        elif c == ";" and depth <= 0:
            return i + 1, brace
        i -= 1
    return 0, brace


def problems_in(raw):
    """[(line, what)] for one file's text."""
    found, text = [], strip(raw)
    for match in re.finditer(r"\bco_await\b", text):
        start, brace = statement_start(text, match.start())
        line = text.count("\n", 0, match.start()) + 1
        if "?" in text[start:text.find(";", match.end())]:
            found.append((line, "co_await in a statement with ?:"))
        if brace is not None:
            found.append((line, "co_await inside a braced initialiser"))
    return found


SELF_TEST = [
    ("auto x = ok ? co_await a() : b();", 1),
    ("f({co_await a()});", 1),
    ("Point p{co_await a(), 1};", 1),
    ("return Pair{1, co_await a()};", 1),
    ("auto n = co_await a();", 0),
    ("void f() { co_await a(); }", 0),
    ("if (x) { co_await a(); } else { co_await b(); }", 0),
    ("auto g = [](int i) -> awaitable<void> { co_await a(i); };", 0),
    ("for (;;) { auto [ec, n] = co_await s.read(buffer(x)); use(ec ? 1 : 2); }", 0),
    ("// co_await in ? : {\nint y = 1;", 0),
    ("awaitable<int> f() noexcept { co_return co_await a(); }", 0),
]


def main():
    for text, count in SELF_TEST:
        assert len(problems_in(text)) == count, f"self test: {text}: {problems_in(text)}"
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.cpp", "*.h"], capture_output=True, text=True, check=True)
    problems = 0
    for name in filter(None, out.stdout.split("\n")):
        path = pathlib.Path(name)
        if not path.exists() or "co_await" not in (raw := path.read_text(encoding="utf-8")):
            continue
        for line, what in problems_in(raw):
            print(f"{name}:{line}: {what}: await into a named local first", file=sys.stderr)
            problems += 1
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
