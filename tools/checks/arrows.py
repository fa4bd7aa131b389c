"""Folder arrows (design.md 1, style.md 2.1): which folder may include which, and no include cycle between second-level folders."""
import pathlib
import re
import subprocess
import sys

# An arrow means "may include". tests and tools may include everything; tests beside a source may, too.
ALLOWED = {
    "config": set(),
    "kernels": {"config"},
    "net": {"config"},
    "engine": {"kernels", "net", "config"},
    "server": {"engine", "config"},
}
# Highway wants its own headers in quotes.
FOREIGN = ("hwy/",)
# Sub-commands and main.cpp are the composition roots.
ROOTS = ("server/commands/", "server/main.cpp")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def sources():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True)
    for name in out.stdout.split("\n"):
        if name.endswith((".cpp", ".h", ".cu", ".cuh")) and pathlib.Path(name).exists():
            yield name


def is_test(name):
    return name.startswith(("tests/", "tools/")) or "/testing/" in name or re.search(r"_(test|bench|fuzz)\.cpp$", name)


def second_level(name):
    if name.endswith("/main.cpp"):
        return name  # knows every sub-command, and nobody includes it
    parts = name.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def find_cycle(graph):
    state, path = {}, []

    def visit(node):
        state[node] = 1
        path.append(node)
        for other in sorted(graph.get(node, ())):
            if state.get(other) == 1:
                return path[path.index(other):] + [other]
            if other not in state:
                found = visit(other)
                if found:
                    return found
        path.pop()
        state[node] = 2
        return None

    for node in sorted(graph):
        if node not in state:
            found = visit(node)
            if found:
                return found
    return None


def main():
    problems, graph = [], {}
    for name in sources():
        text = pathlib.Path(name).read_text(encoding="utf-8")
        top = name.split("/")[0]
        for target in INCLUDE.findall(text):
            if target.startswith(FOREIGN):
                continue
            if not pathlib.Path(target).exists():
                problems.append(f"{name}: includes \"{target}\", which is not a path from the repository root")
                continue
            if is_test(name) or top not in ALLOWED:
                continue
            other = target.split("/")[0]
            if other != top and other not in ALLOWED[top] and not name.startswith(ROOTS):
                problems.append(f"{name}: {top} must not include {other} ({target})")
            if is_test(target):
                problems.append(f"{name}: includes test code ({target})")
            a, b = second_level(name), second_level(target)
            if a != b:
                graph.setdefault(a, set()).add(b)
    # A folder's own top-level files (engine/engine.cpp) stand above its second-level folders.
    cycle = find_cycle(graph)
    if cycle:
        problems.append("include cycle between folders: " + " -> ".join(cycle))
    for line in problems:
        print(line, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
