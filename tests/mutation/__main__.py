"""Mutation testing: tells which share of a sample of mutants the tests catch.

    python -m tests.mutation --sample=225 --seed=0     # all of it; continues a run that was stopped
    python -m tests.mutation --sample=225 --survivors  # again those that survived, after tests were added
    python -m tests.mutation --sample=30 --list        # only the mutants, as diffs
    python -m tests.mutation --only=core/losses        # mutants of some modules

The checkout is not changed: mutants are applied in copies. See docs/testing.md.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from tests.mutation import mutants, relevant_tests, runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAUGHT = ('caught', 'slow')


def main(words: Sequence[str] | None = None, root: pathlib.Path = ROOT) -> int:
    """Runs what a command line says; the status is 0 if every mutant of the sample was caught."""
    given = _parser().parse_args(words)
    derived = [each for each in mutants.mutants_of(root) if given.only in each.file]
    chosen = mutants.sample(derived, given.sample, given.seed)
    if given.list:
        print('\n'.join(_difference(each, root) for each in chosen))
        return 0
    given.output.mkdir(parents=True, exist_ok=True)
    journal = given.output / 'journal.jsonl'
    outcomes = _outcomes(chosen, journal, root)
    to_do = [each for each in chosen if _is_to_do(outcomes.get(each.identity), given.survivors)]
    files = sorted({file for each in to_do for file in relevant_tests.for_module(root, each.file)})
    if files and not given.trust and (failing := runs.failing_tests(root, files, given.jobs)):
        print('Without a mutant, these tests fail. Repair them first:', *failing, sep='\n', file=sys.stderr)
        return 2
    done = len(chosen) - len(to_do)

    def report(mutant: mutants.Mutant, outcome: runs.Outcome) -> None:
        nonlocal done
        done += 1
        print(f'{done}/{len(chosen)} {outcome.result} {outcome.seconds:.0f} s {mutant.identity}', file=sys.stderr)

    runs.run_all(to_do, root, journal, given.jobs, given.limit, report)
    outcomes = _outcomes(chosen, journal, root)
    document = _document(chosen, outcomes, root)
    document |= {'seed': given.seed, 'mutants': len(derived)}
    (given.output / 'result.json').write_text(json.dumps(document, indent=1) + '\n')
    print(_page(document))
    return int(bool(document['survivors']))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog='python -m tests.mutation', description=(__doc__ or '').splitlines()[0])
    parser.add_argument('--sample', type=int, default=225, help='number of mutants')
    parser.add_argument('--seed', type=int, default=0, help='what is drawn')
    parser.add_argument('--only', default='', help='mutants of files whose path contains this text')
    parser.add_argument('--jobs', type=int, default=os.cpu_count() or 1, help='mutants to test at the same time')
    parser.add_argument('--limit', type=float, default=180, help='seconds after which a hanging test counts')
    parser.add_argument('--output', type=pathlib.Path, default=ROOT / 'build' / 'mutation', help='folder of results')
    parser.add_argument('--list', action='store_true', help='print the mutants of the sample, and end')
    parser.add_argument('--survivors', action='store_true', help='run the mutants again that survived')
    parser.add_argument('--trust', action='store_true', help='do not run the tests without a mutant first')
    return parser


def _outcomes(chosen: Sequence[mutants.Mutant], journal: pathlib.Path, root: pathlib.Path) -> dict[str, runs.Outcome]:
    """Outcomes of earlier runs whose source is the same today."""
    written = runs.read_journal(journal)
    digests = {each.identity: runs.digest_of(each, (root / each.file).read_bytes()) for each in chosen}
    return {name: each for name, each in written.items() if digests.get(name) == each.digest}


def _is_to_do(outcome: runs.Outcome | None, with_survivors: bool) -> bool:
    return outcome is None or outcome.result == 'invalid' or (with_survivors and outcome.result == 'survived')


def _difference(mutant: mutants.Mutant, root: pathlib.Path) -> str:
    return f'{mutant.identity}\n{mutant.difference((root / mutant.file).read_bytes())}'


def _document(
    chosen: Sequence[mutants.Mutant], outcomes: dict[str, runs.Outcome], root: pathlib.Path
) -> dict[str, Any]:
    """Counts by package and kind, the survivors, and all outcomes."""
    results = {each: outcomes[each.identity].result for each in chosen if each.identity in outcomes}
    tables = {}
    for name in ('package', 'kind'):
        rows: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for mutant, result in results.items():
            rows[getattr(mutant, name)]['caught' if result in CAUGHT else result] += 1
        tables[name] = {key: dict(rows[key]) for key in sorted(rows)}
    survivors = [_difference(each, root) for each, result in results.items() if result == 'survived']
    return {**tables, 'survivors': survivors, 'outcomes': [dataclasses.asdict(each) for each in outcomes.values()]}


def _page(document: dict[str, Any]) -> str:
    """The survivors as diffs, then a table by kind and one by package with the sum."""
    lines = list(document['survivors'])
    for name in ('kind', 'package'):
        rows = {key: collections.Counter(row) for key, row in document[name].items()}
        rows['all'] = sum(rows.values(), collections.Counter())
        lines.append('')
        for key, row in rows.items():
            total = row['caught'] + row['survived']
            invalid = f', {row["invalid"]} invalid' if row['invalid'] else ''
            lines.append(
                f'{key:<20}{row["caught"]:>4} of {total:>4} caught {row["caught"] / max(total, 1):>6.1%}{invalid}'
            )
    return '\n'.join(lines)


if __name__ == '__main__':
    sys.exit(main())
