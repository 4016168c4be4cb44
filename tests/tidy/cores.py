"""What the pure cores never do: threads, locks, clocks, files, sockets, entropy, hashed order.

A walk over a hashed container is refused because its order differs from run to run. Where the order
can reach no effect, a comment `// order-free: why` on the line or the one above allows it.
"""

import re

from source import Finding

CORES = ("common/model/", "master/core/", "master/policy/", "worker/core/")

HEADERS = re.compile(
    r"^(thread|mutex|shared_mutex|condition_variable|future|semaphore|latch|barrier|stop_token|"
    r"chrono|ctime|time\.h|random|fstream|iostream|cstdio|stdio\.h|filesystem|syncstream|"
    r"unordered_map|unordered_set|pthread\.h|unistd\.h|fcntl\.h|poll\.h|signal\.h|csignal|"
    r"sys/.*|netinet/.*|arpa/.*|netdb\.h|dirent\.h|dlfcn\.h|"
    r"absl/synchronization/.*|absl/random/.*|absl/time/clock\.h)$")

CALLS = [
    (r"\bstd::(this_thread|j?thread|(shared_|recursive_|timed_)*mutex|condition_variable\w*|async|"
     r"future|promise|lock_guard|unique_lock|scoped_lock|atomic\w*)\b", "threads and locks"),
    (r"\babsl::(Mutex\w*|CondVar|Notification|BlockingCounter|SleepFor)\b", "threads and locks"),
    (r"\bthread_local\b", "threads and locks"),
    (r"\babsl::(Now|GetCurrentTimeNanos)\b|\bstd::chrono::|_clock::now\b|"
     r"\b(clock_gettime|gettimeofday|timespec_get|localtime\w*|gmtime\w*)\s*\(|"
     r"(?<![\w.>])(std::)?time\s*\(\s*(nullptr|NULL|0|&)|(?<![\w.>])(std::)?clock\s*\(\s*\)",
     "clocks"),
    (r"\bstd::(i|o)?fstream\b|\bstd::(cout|cerr|clog|cin)\b|\bstd::filesystem\b|"
     r"(?<![\w.>])(std::)?(fopen|fclose|fread|fwrite|printf|fprintf|puts|getenv|system|popen)\s*\(|"
     r"(?<![\w.>])::(open|close|read|write|pread|pwrite|mmap|unlink|rename|fsync|fdatasync)\s*\(",
     "files and the environment"),
    (r"(?<![\w.>])(::)?(socket|connect|bind|listen|accept4?|sendto|recvfrom|sendmsg|recvmsg|"
     r"epoll_\w+|fork|execv\w*|usleep|nanosleep|sleep)\s*\(", "sockets and processes"),
    (r"\bstd::(random_device|mt19937\w*|default_random_engine)\b|\babsl::(BitGen|InsecureBitGen)\b|"
     r"(?<![\w.>])(std::)?(s?rand|random|[dlm]rand48|getrandom|getentropy)\s*\(", "entropy"),
    (r"\bstd::(unordered_(multi)?(map|set)|hash)\b", "hashed containers of std"),
]
CALLS = [(re.compile(pattern), why) for pattern, why in CALLS]

HASHED = re.compile(r"\babsl::(?:flat|node)_hash_(?:map|set)\s*<")


def hashed_names(code):
    """Names of variables, members and aliases whose declared type is a hashed container."""
    text = "\n".join(code)
    names, aliases = set(), set()
    for match in HASHED.finditer(text):
        rest = text[after_angle(text, match.end()):]
        if declared := re.match(r"[\s&*]*(\w+)\s*(?:[;={,)]|ABSL_)", rest):
            names.add(declared.group(1))
        if alias := re.search(r"using\s+(\w+)\s*=\s*$", text[: match.start()]):
            aliases.add(alias.group(1))
    for alias in aliases:
        names |= set(re.findall(rf"\b{alias}\b[\s&*]+(\w+)\s*[;={{,)]", text))
    return names


def after_angle(text, start):
    """The offset just behind the `>` that closes the template whose `<` ends at `start`."""
    depth = 1
    while start < len(text) and depth:
        depth += {"<": 1, ">": -1}.get(text[start], 0)
        start += 1
    return start


def check_file(file, declarations=None):
    """`declarations`: names of hashed containers that headers of the same folder declare."""
    if not file.path.startswith(CORES) or not file.is_cxx:
        return
    for line, name in file.includes():
        if HEADERS.match(name):
            yield Finding(file.path, line, "core", f"a pure core does not include <{name}>")
    hashed = hashed_names(file.code) | (declarations or set())
    for number, line in enumerate(file.code, 1):
        for pattern, why in CALLS:
            if match := pattern.search(line):
                yield Finding(file.path, number, "core",
                              f"a pure core has no {why}: {match.group(0).strip()}")
        if walked := walked_name(line):
            near = file.lines[max(0, number - 2):number]
            if walked in hashed and not any("order-free:" in text for text in near):
                yield Finding(file.path, number, "core",
                              f"walks the hashed container {walked}, whose order differs from run to "
                              "run; use an ordered one, or say `// order-free: why`")


def walked_name(line):
    """The container that a line walks: the last name in a range-for's range, or before .begin()."""
    match = (re.search(r"\bfor\s*\(.*[^:]:(?!:)\s*[^;]*?(\w+)\s*(?:\(\s*\))?\s*\)\s*[{;\w]?", line)
             or re.search(r"\b(\w+)(?:\.|->)c?begin\s*\(", line))
    return match.group(1) if match else None


def check_tree(files):
    cores = [f for f in files if f.path.startswith(CORES) and f.is_cxx]
    for folder in CORES:
        members = [f for f in cores if f.path.startswith(folder)]
        declared = set()
        for file in members:
            if file.path.endswith(".h"):
                declared |= hashed_names(file.code)
        for file in members:
            yield from check_file(file, declared)
