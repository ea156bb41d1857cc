#!/usr/bin/env python3
"""Mechanical mutation of plugin/: are the tests good enough to notice a small mistake?

    python3 cmake/mutate.py [--mutants 200] [--seed 1] [--jobs 2] [--only FILE] [--list]

Makes one change at a time, of these kinds, at places drawn with the seed:

    relation   < becomes <=, <= <, > >=, >= >, == !=, != ==
    logic      && becomes ||, || &&
    sum        + becomes -, - +, += -=, -= +=, ++ --, -- ++   (binary ones stand between blanks)
    bits       & becomes |, | &, &= |=, |= &=, << >>, >> <<
    constant   0 becomes 1, 1 0, true false, false true
    condition  if (x) becomes if (!(x))
    statement  a line that is one call or one assignment is left out

Comments, strings, preprocessor lines, declarations of enumerators and assertions are left alone,
and so are files that the build here does not compile, and lines that send signals or remove files:
a mistake there may hit what is not the test's.

A mutant is built, and of the unit and behaviour tests those run that execute its line, which a run
with gcc's counters finds out beforehand (of a table outside functions, those that execute anything
of its file); the quickest first, until one fails, crashes or takes ten times as long as it does
without the change, and does so again. Then it is caught. One that does not compile is not counted
but replaced by the next. What nobody caught is listed at the end. Exit status: 0 when at least
80 % are caught.

Sources and builds are copies in build-mutate/, which may be removed at any time. The tests run as
they always do, but on faulty code: on a machine where nothing else is at stake.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACE = ROOT / "build-mutate"
FLOOR = 0.80

OPERATORS = [
    ("relation", r" (<=|>=|==|!=|<|>) ", {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=",
                                          "!=": "=="}),
    ("logic", r" (&&|\|\|) ", {"&&": "||", "||": "&&"}),
    ("sum", r" (\+|-|\+=|-=) ", {"+": "-", "-": "+", "+=": "-=", "-=": "+="}),
    ("sum", r"(\+\+|--)", {"++": "--", "--": "++"}),
    ("bits", r" (&|\||&=|\|=|<<|>>) ", {"&": "|", "|": "&", "&=": "|=", "|=": "&=", "<<": ">>",
                                        ">>": "<<"}),
    ("constant", r"(?<![\w.\"'])(0|1|true|false)(?![\w.\"'])", {"0": "1", "1": "0",
                                                               "true": "false", "false": "true"}),
]
STATEMENT = re.compile(r"^\s+(?:\(void\))?[a-z_][\w>.\-\[\]]*(?:\(.*\)| (?:[-+|&]?=) .*|\+\+|--);$")
CONDITION = re.compile(r"^(\s+(?:\} else )?if )(\(.*\))( \{)$")


def blank_out(text):
    """The text with comments, strings and characters as blanks, so that places keep."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def sites_of(path):
    """All mutants of a file: (file, line number, kind, new line)."""
    text = path.read_text()
    old_lines, lines, found = text.split("\n"), blank_out(text).split("\n"), []
    name = str(path.relative_to(ROOT))
    in_enum = False
    for number, (old, line) in enumerate(zip(old_lines, lines), 1):
        in_enum = in_enum and "}" not in line or bool(re.match(r"\s*enum\b[^;}]*\{[^}]*$", line))
        if (in_enum or not line.startswith(" ") or "assert(" in line or line.endswith("\\")
                or re.search(r"\b(kill|unlink|unlinkat|rmdir|flock)\(", line)
                or re.match(r"\s*#|\s*enum\b|\s*static_assert|\s*case .*:$", line)):
            continue
        for kind, pattern, to in OPERATORS:
            for match in re.finditer(pattern, line):
                begin, end = match.span(1)
                new = old[:begin] + to[match.group(1)] + old[end:]
                found.append((name, number, kind, new))
        match = CONDITION.match(line)
        if match:
            begin, end = match.span(2)
            new = f"{old[:begin]}(!{old[begin:end]}){old[end:]}"
            found.append((name, number, "condition", new))
        if STATEMENT.match(line) and line.count("(") == line.count(")"):
            found.append((name, number, "statement", re.sub(r"\S.*", ";", old)))
    return found


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, check=False, **options)


def copy_sources(to):
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for name in ("CMakeLists.txt", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, to / name)
    for name in ("plugin", "include", "tests", "examples", "cmake"):
        shutil.copytree(ROOT / name, to / name)


def configure(tree, flags):
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    done = run(["cmake", "-S", str(tree), "-B", str(tree / "build"), *generator,
                "-DCMAKE_C_COMPILER=gcc", "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_C_FLAGS={flags}",
                "-DEVZMQ_BUILD_TESTS=ON", "-DEVZMQ_BUILD_EXAMPLES=OFF",
                "-DCMAKE_LINK_DEPENDS_NO_SHARED=ON"])
    if done.returncode == 0:
        done = run(["cmake", "--build", str(tree / "build"), "--parallel", "2"])
    if done.returncode != 0:
        sys.exit(done.stdout[-4000:] + "\nThe build failed.")


def tests_of(tree):
    listed = json.loads(run(["ctest", "--show-only=json-v1", "-L", "unit|behaviour"],
                            cwd=tree / "build").stdout)
    return {test["name"]: test["command"] for test in listed["tests"]}


def run_test(command, tree, seconds, extra=None):
    """(passed, seconds it took)"""
    begin = time.monotonic()
    environment = {**os.environ, "EVZMQ_TEST_WATCHDOG": str(int(seconds) + 1), **(extra or {})}
    process = subprocess.Popen(command, cwd=tree / "build" / "tests", env=environment,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        passed = process.wait(timeout=seconds + 5) == 0
    except subprocess.TimeoutExpired:
        passed = False
    try:
        os.killpg(process.pid, 9)  # With what it may have left behind; the group is our own.
    except ProcessLookupError:
        pass
    process.wait()
    return passed, time.monotonic() - begin


def lines_run(prefix, tree):
    """What the counter files below `prefix` say: {file: {line, ...}}"""
    covered = {}
    counters = [path for path in prefix.rglob("*.gcda") if "/plugin/" in str(path)]
    for path in counters:
        inside = tree / path.relative_to(str(prefix) + str(tree))
        shutil.copy2(inside.with_suffix(".gcno"), path.with_suffix(".gcno"))
    if not counters:
        return covered
    out = run(["gcov", "--json-format", "--stdout", *map(str, counters)], cwd=prefix).stdout
    for text in out.splitlines():
        if not text.startswith("{"):
            continue
        for file in json.loads(text)["files"]:
            position = file["file"].rfind("plugin/")
            if position >= 0:
                lines = covered.setdefault(file["file"][position:], set())
                lines.update(l["line_number"] for l in file["lines"] if l["count"] > 0)
    return covered


def survey():
    """Runs each test once with counters: ({test: seconds}, {file: {line: [test, ...]}})"""
    tree = PLACE / "survey"
    copy_sources(tree)
    configure(tree, "-O0 --coverage -DNDEBUG")
    seconds, tests_at = {}, {}
    for name, command in tests_of(tree).items():
        prefix = PLACE / "counters" / name
        shutil.rmtree(prefix, ignore_errors=True)
        prefix.mkdir(parents=True)
        passed, took = run_test(command, tree, 120, {"GCOV_PREFIX": str(prefix)})
        if not passed:
            print(f"{name} fails without a change and is left out", flush=True)
            continue
        seconds[name] = took
        for file, lines in lines_run(prefix, tree).items():
            for line in lines:
                tests_at.setdefault(file, {}).setdefault(line, []).append(name)
        shutil.rmtree(prefix, ignore_errors=True)
    return seconds, tests_at


def tests_for(tests_at, file, line):
    """The tests that run the line. One that continues a statement has no counters of its own: then
    those of the line above. A table outside functions has none at all: then those of the file."""
    lines = tests_at.get(file, {})
    known = set(lines)
    for back in range(0, 6):
        if line - back in known:
            return lines[line - back]
    in_function = False
    for text in (ROOT / file).read_text().split("\n")[:line - 1]:
        in_function = text == "{" or in_function and text != "}"
    return [] if in_function else sorted({test for tests in lines.values() for test in tests})


def shown(site):
    """A mutant as a line of text."""
    file, line, kind, new = site
    text = new.strip()
    if kind == "statement":
        text = "without " + (ROOT / file).read_text().split("\n")[line - 1].strip()
    return f"{file}:{line} {kind}: {text}"


def judge(tree, commands, seconds, tests_at, site):
    """What became of a mutant: a word, and the test that caught it."""
    file, line, _, new = site
    source = tree / file
    original = (ROOT / file).read_text()
    lines = original.split("\n")
    lines[line - 1] = new
    tests = sorted(tests_for(tests_at, file, line), key=lambda name: seconds[name])
    if not tests:
        return "survived", "no test runs the line"
    source.write_text("\n".join(lines))
    try:
        done = run(["cmake", "--build", str(tree / "build"), "--target", "evzmq"])
        if done.returncode != 0:
            return "uncompiled", ""
        for name in tests:
            done = run(["cmake", "--build", str(tree / "build"), "--target", name])
            if done.returncode != 0:
                return "uncompiled", ""
            if all(not run_test(commands[name], tree, 5 + 10 * seconds[name])[0]
                   for _ in range(2)):
                return "caught", name
        return "survived", f"{len(tests)} tests run the line"
    finally:
        source.write_text(original)


def work(number, queue, counts, options, survey_result):
    """One worker, with a tree of its own, takes mutants until enough are judged."""
    seconds, tests_at = survey_result
    tree = PLACE / f"tree{number}"
    copy_sources(tree)
    configure(tree, "-O1 -DNDEBUG")
    commands = tests_of(tree)
    while True:
        with options.lock:
            if not queue or len(counts["caught"]) + len(counts["survived"]) >= options.mutants:
                return
            site = queue.pop()
        result, note = judge(tree, commands, seconds, tests_at, site)
        with options.lock:
            counts[result].append((site, note))
            judged = len(counts["caught"]) + len(counts["survived"])
            print(f"{judged:4} {result:10} {shown(site)}  [{note}]", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", action="append", help="a file of plugin/; more than once")
    parser.add_argument("--list", action="store_true", help="print the places and change nothing")
    options = parser.parse_args()
    files = [ROOT / name for name in options.only or []] or sorted((ROOT / "plugin").glob("*.c"))
    sites = [site for path in files for site in sites_of(path)]
    random.Random(options.seed).shuffle(sites)
    print(f"{len(sites)} places in {len(files)} files, seed {options.seed}", flush=True)
    if options.list:
        for site in sites:
            print(shown(site))
        return 0
    survey_result = survey()
    compiled = survey_result[1]
    queue = [site for site in reversed(sites) if site[0] in compiled]
    counts = {"caught": [], "survived": [], "uncompiled": []}
    options.lock = threading.Lock()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for future in [pool.submit(work, n, queue, counts, options, survey_result)
                       for n in range(options.jobs)]:
            future.result()
    caught, survived = len(counts["caught"]), len(counts["survived"])
    print("\nSurvivors:")
    for site, note in sorted(counts["survived"]):
        print(f"{shown(site)}  [{note}]")
    share = caught / max(1, caught + survived)
    print(f"\n{caught} of {caught + survived} mutants caught ({share:.0%}), "
          f"{len(counts['uncompiled'])} did not compile")
    return 0 if share >= FLOOR else 1


if __name__ == "__main__":
    sys.exit(main())
