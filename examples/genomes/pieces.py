#!/usr/bin/env python3
"""Pieces of genomes, and their k-mer counts compared. Needs nothing but Python.

pieces.py cut K FOLDER GENOME.fna...                 FOLDER/NAME.RECORD.NUMBER.fna, each K - 1 bases into the next
pieces.py compare FOLDER COUNTS GENOME.fna...        COUNTS/*.npy, one a piece and one a genome
"""
import array
import collections
import math
import os
import sys

BASES = 300_000


def name_of(path):
    return os.path.splitext(os.path.basename(path))[0]


def records(path):
    """The letters of each record."""
    letters = []
    with open(path, encoding="ascii") as file:
        for line in file:
            if line.startswith(">"):
                if letters:
                    yield "".join(letters)
                letters = []
            else:
                letters.append(line.strip())
    if letters:
        yield "".join(letters)


def cut(k, folder, *genomes):
    k = int(k)
    for genome in genomes:
        for record, letters in enumerate(records(genome)):
            for number, begin in enumerate(range(0, max(1, len(letters) - k + 1), BASES)):
                name = f"{name_of(genome)}.{record}.{number:03d}"
                with open(os.path.join(folder, name + ".fna"), "w", encoding="ascii") as file:
                    file.write(f">{name}\n{letters[begin:begin + BASES + k - 1]}\n")


def read(path):
    """The numbers of a one-dimensional .npy file of u32."""
    with open(path, "rb") as file:
        head = file.read(10)
        file.seek(10 + int.from_bytes(head[8:10], "little"))
        counts = array.array("I", file.read())
    if sys.byteorder == "big":
        counts.byteswap()
    return counts


def likeness(a, b):
    """The cosine of the angle between two counts."""
    return math.sumprod(a, b) / math.sqrt(math.sumprod(a, a) * math.sumprod(b, b)) if hasattr(math, "sumprod") else (
        sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b)))


def compare(folder, counts, *genomes):
    wholes = {name_of(genome): read(os.path.join(counts, name_of(genome) + ".npy")) for genome in genomes}
    pieces = {name_of(file): read(os.path.join(counts, name_of(file) + ".npy")) for file in sorted(os.listdir(folder))}
    of, right = collections.defaultdict(list), 0
    for name, count in pieces.items():
        genome = name.rsplit(".", 2)[0]
        of[genome].append(count)
        # Like a genome without itself: what it adds to its own one is taken out.
        alike = {other: likeness(count, [w - c for w, c in zip(whole, count)] if other == genome else whole)
                 for other, whole in wholes.items()}
        right += max(alike, key=alike.get) == genome
    for genome, whole in wholes.items():
        assert [sum(column) for column in zip(*of[genome])] == list(whole), f"{genome}: its pieces do not add up to it"
        print(f"{genome}: {len(of[genome])} pieces, {sum(whole):,} words, as many of each as in the whole")
    print(f"{right} of {len(pieces)} pieces are most like the genome that they are of")
    assert right >= 0.9 * len(pieces), "the counts do not tell the genomes apart"


if __name__ == "__main__":
    {"cut": cut, "compare": compare}[sys.argv[1]](*sys.argv[2:])
