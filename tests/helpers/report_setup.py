"""Two small runs with records, curves and checkpoints, whose names have markup in them, for the tests of report."""

import json
import pathlib

from deeplab.options import EvalOptions, ReportedRun, ReportOptions
from deeplab.reporting import page
from tests.helpers import evaluation_setup as setup

MARKUP = '<img src=x onerror="document.title=1">'
NAMES = [f'{MARKUP}{i}</script>' for i in range(5)]
CLASSES = ['sky', f'road {MARKUP}', '</script><b>tree', "car & 'van'"]


def write_runs(folder: pathlib.Path) -> ReportOptions:
    """Writes the runs `one` (weight 1, perfect) and `two` (weight 0.5); returns options of a report of both."""
    dataset = setup.write_data(folder / 'records', names=NAMES)
    description = pathlib.Path(dataset.name)
    description.write_text(json.dumps(json.loads(description.read_text()) | {'class_names': CLASSES}))
    runs = []
    for name, weight in (('one', 1.0), ('two', 0.5)):
        logdir = folder / name
        (logdir / 'eval').mkdir(parents=True)
        setup.write_checkpoint(logdir, step=20, weight=weight)
        lines = [{'step': i, 'loss': 1 / i, 'learning_rate': 0.1 / i} for i in range(1, 21)]
        (logdir / 'metrics.jsonl').write_text(''.join(f'{json.dumps(line)}\n' for line in lines))
        for step in (10, 20):
            ious = dict.fromkeys(CLASSES, weight * step / 20)
            content = {'global_step': step, 'miou': weight * step / 20, 'class_iou': ious, 'split': 'val'}
            (logdir / 'eval' / f'metrics-{step}.json').write_text(json.dumps(content))
        run = {'command': ['--seed=1'], 'command_line': f'deeplab train --dataset={MARKUP}', 'folder': str(folder)}
        (logdir / 'run.json').write_text(json.dumps({'runs': [run]}))
        evaluation = EvalOptions(setup.MODEL, dataset, str(logdir), '.', batch_size=2)
        runs.append(ReportedRun(str(logdir), evaluation))
    return ReportOptions(tuple(runs), str(folder / 'page' / 'report.html'), command=('deeplab', 'report', 'one'))


def without_charts(monkeypatch) -> None:
    """Replaces the charts, whose script takes seconds to make."""
    script = 'window.vegaEmbed = async () => ({finalize() {}});'
    monkeypatch.setattr(page, 'charts_library', lambda: script)
