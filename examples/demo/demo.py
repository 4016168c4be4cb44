#!/usr/bin/env python3
"""Tandem's main job on real input, with its figures and its checks. See run.sh."""
import argparse
import array
import html
import os
import re
import shutil
import subprocess
import sys
import time

from cluster import Cluster, Failed


def check(what, found, expected):
    ok = found == expected
    print(f"   {'ok ' if ok else 'BAD'} {what}: {found:,}" + ("" if ok else f", expected {expected:,}"))
    if not ok:
        raise Failed(what)


def read_npy(path, typecode):
    """The elements of a one-dimensional .npy file."""
    with open(path, "rb") as file:
        head = file.read(10)
        file.seek(10 + int.from_bytes(head[8:10], "little"))
        values = array.array(typecode)
        values.frombytes(file.read())
    return values


def end_line(err):
    return [line for line in err.splitlines() if re.match(r"job \d+ [A-Z]+", line)][-1]


# Published counts of the 11-mers of H37Rv: words, distinct, occurring once, the largest count.
KMERS = {"false": (4411522, 1679113, 829491, 331), "true": (4411522, 1137671, 431184, 573)}


def kmers(cluster, data, out):
    genome = os.path.join(data, "h37rv.fna")
    print("1. kmer_count, k = 11, on the genome of M. tuberculosis H37Rv (4.4 million bases)")
    for canonical, (total, distinct, unique, largest) in KMERS.items():
        path = os.path.join(out, "kmers.canonical.npy" if canonical == "true" else "kmers.npy")
        _, err = cluster.tandem("run", "kmer_count", f"base=@{genome}", "k=11", f"canonical={canonical}",
                                "--out", f"count=@{path}", "--force")
        print(f"   canonical={canonical}: {end_line(err)}")
        counts = read_npy(path, "I")
        check("words", sum(counts), total)
        check("distinct", len(counts) - counts.count(0), distinct)
        check("occurring once", counts.count(1), unique)
        check("largest count", max(counts), largest)


def images(cluster, data, out):
    photos = os.path.join(data, "photos")
    edges = os.path.join(out, "edges")
    shutil.rmtree(edges, ignore_errors=True)
    names = sorted(os.listdir(photos))
    print(f"2. image_sobel on {len(names)} photographs, one of them a JPEG that is cut short")
    _, err = cluster.tandem("run", "image_sobel", f"image=@{photos}/", "--out", f"edges=@{edges}/", "--allow-failed")
    print("   " + end_line(err))
    failures = [line.strip() for line in err.splitlines() if re.match(r"\s+task \d+ ", line)]
    for line in failures:
        print("   " + line)
    check("pictures made", len(os.listdir(edges)), len(names) - 1)
    check("tasks that failed", len(failures), 1)
    if "truncated.jpg" not in failures[0]:
        raise Failed("another picture than truncated.jpg failed: " + failures[0])
    for name in os.listdir(edges):
        with open(os.path.join(edges, name), "rb") as file:
            if file.read(8) != b"\x89PNG\r\n\x1a\n":
                raise Failed(f"{name} is no PNG")
    print("   look at " + contact_sheet(photos, names, out))


def contact_sheet(photos, names, out):
    """One page with each photograph beside its edges."""
    copies = os.path.join(out, "photos")
    shutil.rmtree(copies, ignore_errors=True)
    shutil.copytree(photos, copies)
    rows = []
    for name in names:
        edge = os.path.splitext(name)[0] + ".png"
        right = f'<img loading="lazy" src="edges/{html.escape(edge)}">'
        if not os.path.exists(os.path.join(out, "edges", edge)):
            right = "<p>failed alone: the picture is truncated</p>"
        rows.append(f'<figure><img loading="lazy" src="photos/{html.escape(name)}">{right}'
                    f"<figcaption>{html.escape(name)}</figcaption></figure>")
    path = os.path.join(out, "contact_sheet.html")
    with open(path, "w") as file:
        file.write('<!doctype html><meta charset="utf-8"><title>image_sobel</title><style>'
                   "body{font-family:sans-serif;display:flex;flex-wrap:wrap;gap:1em;background:#222;color:#ddd}"
                   "figure{margin:0}img{height:180px}p{display:inline-block;width:180px}</style>\n" + "\n".join(rows))
    return path


OPTIONS = 10_000_000


def options(cluster, bin_dir, out):
    print(f"3. black_scholes on {OPTIONS:,} options, against an independent formula")
    files = {name: os.path.join(out, name + ".npy") for name in ("call", "put")}
    _, err = cluster.tandem(
        "run", "black_scholes", "spot=uniform(seed=1,lo=50,hi=150)", "strike=uniform(seed=2,lo=50,hi=150)",
        "years=uniform(seed=3,lo=0.1,hi=2)", "rate=0.03", "volatility=0.25", f"n={OPTIONS}",
        *[word for name, path in files.items() for word in ("--out", f"{name}=@{path}")], "--force")
    print("   " + end_line(err))
    checked = subprocess.run([os.path.join(bin_dir, "demo-check-options"), files["call"], files["put"],
                              str(OPTIONS), "0.03", "0.25"], capture_output=True, text=True)
    print("   " + (checked.stdout + checked.stderr).strip())
    if checked.returncode != 0:
        raise Failed("the prices disagree with the formula")


PI_TASKS = 1_000_000_000


def hits_of(text):
    return int(re.search(r"hits = (\d+)", text).group(1))


def pi(cluster, bin_dir):
    print(f"4. monte_carlo_pi, {PI_TASKS:,} tasks: the same hits with two workers, with one, and with one killed half-way")
    command = ("run", "monte_carlo_pi", f"n={PI_TASKS}", "seed=7")
    with Cluster(bin_dir, 1, "--local-data", "never") as alone:
        text, err = alone.tandem(*command)
    one = hits_of(text)
    print(f"   one worker:  {end_line(err)}; hits {one:,}, pi is about {4 * one / PI_TASKS:.6f}")
    started = time.monotonic()
    text, err = cluster.tandem(*command)
    took = time.monotonic() - started
    print("   two workers: " + end_line(err))
    check("hits with two workers", hits_of(text), one)
    for patience in (0.4 * took, 0):  # on a busy machine the first kill may come too late
        if kill_half_way(bin_dir, command, patience, one):
            return
    raise Failed("the job ended before a worker could be killed")


def kill_half_way(bin_dir, command, patience, expected):
    """Kills one of two workers while the job runs; False when the job had ended by then."""
    with Cluster(bin_dir, 2, "--local-data", "never") as cluster:
        started = time.monotonic()
        job = int(cluster.tandem("submit", *command[1:])[0])
        time.sleep(max(0, patience - (time.monotonic() - started)))
        cluster.kill_worker(1)
        state = cluster.job(job)
        if state["state"] not in ("PENDING", "RUNNING"):
            return False
        _, err = cluster.tandem("job", "wait", str(job))
        print(f"   one killed with {100 * state['tasks_done'] / PI_TASKS:.0f} % done: {end_line(err)}")
        check("hits after the kill", hits_of(cluster.tandem("job", "results", str(job))[0]), expected)
        return True


CHAPTERS = ("kmers", "images", "options", "pi", "devices")
DEVICE_TASKS = 2_000_000


def devices(cluster, bin_dir, out):
    print(f"5. spin, {DEVICE_TASKS:,} tasks, on the CPU, on a device, and on both, which pull from one job")
    if any(device["kind"] == "gpu" for device in cluster.worker(0)["devices"]):
        share(cluster, out, "gpu")
        return
    os.environ["TANDEM_EMULATED"] = "cores=4"
    with Cluster(bin_dir, 1, "--emulated-gpus", "1") as emulating:
        print("   no GPU here: a device as fast as four cores is emulated, whose grids sleep as long as they would take")
        share(emulating, out, "emulated")


def share(cluster, out, kind):
    results = {}
    for device in ("cpu", "gpu", "auto"):
        path = os.path.join(out, f"spin-{device}.npy")
        _, err = cluster.tandem("run", "spin", "work=constant(700)", f"n={DEVICE_TASKS}", "--device", device,
                                "--out", f"value=@{path}", "--force")
        print(f"   --device {device}: {end_line(err)}")
        with open(path, "rb") as file:
            results[device] = file.read()
        os.remove(path)
    check("results that differ", sum(results[device] != results["cpu"] for device in results), 0)
    explained = cluster.tandem("job", "explain", "last")[0]
    shares = re.search(r"tasks \[.*", explained)
    if shares is None or kind not in shares.group():
        raise Failed("explain does not say what each device had:\n" + explained)
    print("   " + shares.group())
    leases = re.findall(r"LEASE +(tasks .*)", explained)
    if not leases:
        raise Failed("explain says of no lease how it was shared out:\n" + explained)
    print("   of those, " + leases[-1])


def main():
    parser = argparse.ArgumentParser()
    for name in ("bin", "data", "out"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("chapters", nargs="*", choices=[*CHAPTERS, []], default=[])
    flags = parser.parse_args()
    wanted = flags.chapters or CHAPTERS
    os.makedirs(flags.out, exist_ok=True)
    started = time.monotonic()
    try:
        with Cluster(flags.bin, 2, "--local-data", "never") as cluster:
            print(f"a master and two workers at {cluster.address}; nothing passes through a shared directory")
            if "kmers" in wanted:
                kmers(cluster, flags.data, flags.out)
            if "images" in wanted:
                images(cluster, flags.data, flags.out)
            if "options" in wanted:
                options(cluster, flags.bin, flags.out)
            if "pi" in wanted:
                pi(cluster, flags.bin)
            if "devices" in wanted:
                devices(cluster, flags.bin, flags.out)
    except Failed as failure:
        sys.exit(f"demo: {failure}")
    print(f"all checks passed in {time.monotonic() - started:.1f} s; results in {flags.out}")


if __name__ == "__main__":
    main()
