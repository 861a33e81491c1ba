"""The plugin of docs/text_detection.md on drawn pages of text: F-score and time of the first command lines of the page.

    python benchmarks/text_detection.py --workdir=WORKDIR [--name=text_detection]

Prints one line, writes benchmarks/results/NAME.json.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

import _machine
import _text_pages

DOCS = pathlib.Path(__file__).resolve().parents[1] / 'docs'
IMAGES = {'train': 300, 'val': 40}
WANTED = {'f_score': 0.8, 'training_seconds': 600}


def commands() -> list[list[str]]:
    """The command lines of the page in this environment: records, training, evaluation and more."""
    text = (DOCS / 'text_detection.md').read_text(encoding='utf-8').replace('\\\n', ' ')
    lines = re.findall(r'^(?:python|deeplab) .*', text, re.MULTILINE)
    programs = {'python': [sys.executable], 'deeplab': [sys.executable, '-m', 'deeplab']}
    return [programs[program] + words for program, *words in map(str.split, lines)]


def measure(workdir: pathlib.Path) -> dict[str, object]:
    for seed, (split, images) in enumerate(IMAGES.items()):
        _text_pages.write(workdir / 'icdar2015' / {'val': 'test'}.get(split, split), images, seed)
    shutil.copy(DOCS / 'plugins' / 'east.py', workdir)
    seconds = []
    for command in commands()[:3]:
        started = time.monotonic()
        subprocess.run(command, check=True, cwd=workdir)
        seconds.append(round(time.monotonic() - started, 1))
    figures = json.loads(next((workdir / 'eval').glob('metrics-*.json')).read_text())
    return {
        'images': IMAGES,
        'training_seconds': seconds[1],
        'steps': figures['global_step'],
        **figures['metrics']['text'],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--workdir', type=pathlib.Path, required=True)
    parser.add_argument('--name', default='text_detection')
    arguments = parser.parse_args()
    load = _machine.load()
    measured = measure(arguments.workdir)
    path = _machine.write(arguments.name, {'wanted': WANTED, **measured, 'load_before': load})
    print(
        f'F-score {measured["f_score"]:.3f} (wanted {WANTED["f_score"]}) after {measured["steps"]} steps in '
        f'{measured["training_seconds"]} s (at most {WANTED["training_seconds"]}): {path}'
    )


if __name__ == '__main__':
    main()
