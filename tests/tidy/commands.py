"""Every command in a document is run by a test: which one, is said here.

A document's ```console blocks are run, and what they print is compared, by tests/e2e/docs_test.py. A command in any
other block (indented, ```sh, or without a language) stands in RUN, with the file that runs it and words of that file;
a page whose ```sh blocks are run as a whole stands in PAGES. Blocks of another language are no commands.
"""

import re

from source import Finding

DOCUMENT = re.compile(r"(README|CONTRIBUTING|docs/.*)\.md$")
# Languages of blocks to look at.
SHELL = ("", "sh", "bash", "shell")

THIS = "tests/tidy/commands.py"
PAGES = {"docs/kernels.md": ("tests/e2e/install_test.py", "docs/kernels.md")}

CI = ".ci/run"
INSTALL = "tests/e2e/install_test.py"
DEB = "tests/e2e/deb_test.py"
RUN = {
    "./dev test": (CI, '"./dev test" ./dev test'),
    "./dev check": (CI, '"./dev check" ./dev check'),
    "./dev demo": (CI, '"./dev demo" ./dev demo'),
    "./dev test -L tidy": (CI, "./dev test -L tidy"),
    "./dev test -L sim": (CI, '"./dev test" ./dev test'),
    "build/release/tests/tandem_sim --seed 365 --trace": ("tests/sim/CMakeLists.txt", "COMMAND tandem_sim --list"),
    "build/release/tests/tandem_sim --seeds 5000 --from 200": ("tests/sim/CMakeLists.txt", "COMMAND tandem_sim --seeds"),
    "./dev test -R model_test -V": (CI, "./dev test -R model_test -V"),
    "./dev bench": (CI, "./dev bench --quick"),
    "./dev bench --quick": (CI, "./dev bench --quick"),
    "./dev bench --only leases": (CI, "./dev bench --quick"),
    "./dev fuzz": (CI, "./dev fuzz --seconds 10"),
    "./dev fuzz wire --seconds 600": (CI, "./dev fuzz --seconds 10"),
    "build/release/tests/fuzz_replay wire build/fuzz-findings/wire-crash-…":
        ("tests/fuzz/CMakeLists.txt", "COMMAND fuzz_replay ${name}"),
    "cmake --preset asan && cmake --build --preset asan --target tandem_tests_unit":
        (CI, 'cmake --build "build/$preset"'),
    "ctest --test-dir build/asan -L unit": (CI, 'ctest --test-dir "build/$preset"'),
    "cmake --install build/release --prefix ~/.local": (INSTALL, '"cmake", "--install", BUILD, "--prefix"'),
    "tandem up --kernel-path ./mine.so": ("docs/kernels.md", "tandem up --workers 2 --kernel-path"),
    "(cd build/release && cpack)": (DEB, '"cpack", "-G", "DEB"'),
    "apt install ./build/release/packages/tandem_*.deb": (DEB, '"install", f"/tmp/{deb}"'),
    "systemctl enable --now tandem-master": (INSTALL, '"systemd-analyze", "verify"'),
    "systemctl enable --now tandem-worker": (INSTALL, '"systemd-analyze", "verify"'),
}


def blocks(file):
    """(language, [(line number, line)]) of each fenced or indented block."""
    language, block, indented = None, [], []
    for number, line in enumerate(file.lines, 1):
        if line.startswith("```"):
            if language is None:
                language = line[3:].partition(" ")[0]
            else:
                yield language, block
                language, block = None, []
        elif language is not None:
            block.append((number, line))
        elif line.startswith("    "):
            indented.append((number, line[4:]))
        elif indented:
            yield "", indented
            indented = []
    if indented:
        yield "", indented


def check_file(file):
    """Findings of commands that no test is said to run."""
    if not DOCUMENT.fullmatch(file.path):
        return
    for language, block in blocks(file):
        if language not in SHELL or (language and file.path in PAGES):
            continue
        for number, line in block:
            command = re.sub(r"(^|\s+)#.*", "", line).strip()
            if command and command not in RUN:
                yield Finding(file.path, number, "commands",
                              f"no test is known to run `{command}`: make it a ```console block, or say in"
                              " tests/tidy/commands.py which test runs it (or name the block's language)")


def check_tree(files):
    """The same, and the tests that are named do what is said of them."""
    texts = {file.path: file.text for file in files}
    for file in files:
        yield from check_file(file)
    if THIS not in texts:
        return  # Another tree than this one.
    for what, (path, words) in {**PAGES, **RUN}.items():
        if words not in texts.get(path, ""):
            yield Finding(THIS, 1, "commands", f"{path} does not say {words}, which is to run {what}")
