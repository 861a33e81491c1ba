"""Cross-validation, ensemble and mean of weights on CamVid with short trainings (docs/folds.md).

    python benchmarks/cross_validation.py --camvid=../shared/data/camvid --workdir=WORKDIR --checkpoint=FILE

Builds folds of the train frames, with blocks of neighboring frames as groups, and the val frames as split test; runs
cross_validate; evaluates its networks on test, one by one and as an ensemble. Two further trainings from CHECKPOINT, a
network that benchmarks/camvid.py has trained, at a constant learning rate and with different seeds give two networks
whose weights are averaged; all are evaluated on val. A second run continues.
Prints one line, writes benchmarks/results/cross_validation.json.
"""

import argparse
import json
import pathlib
import shutil
import subprocess

import _machine
import camvid

TRAINING = ['--model_variant=mobilenet_v2', '--depth_multiplier=0.5', '--recipe=small_data']
TRAINING += ['--train_crop_size=241,321', '--train_batch_size=8']

FURTHER = [*camvid.NETWORK, *camvid.TRAINING, '--learning_policy=fixed']


def run(name: str, *flags: str) -> None:
    """Runs a program."""
    subprocess.run(camvid.program(name, *flags), check=True)


def build(data: pathlib.Path, workdir: pathlib.Path, folds: int) -> pathlib.Path:
    """Writes records with the folds of train, and val as test; returns their folder."""
    records, lists = workdir / 'tfrecord', workdir / 'lists'
    lists.mkdir(parents=True, exist_ok=True)
    for name, split in (('train', 'train'), ('val', 'test')):
        shutil.copyfile(data / 'ImageSets' / 'Segmentation' / f'{name}.txt', lists / f'{split}.txt')
    run(
        'build_folder_data', f'--image_folder={data / "JPEGImages"}', f'--mask_folder={data / "SegmentationClass"}',
        f'--list_folder={lists}', '--dataset=camvid', f'--folds={folds}', '--group_pattern=^(.+)[0-9]{3}$',
        f'--output_dir={records}',
    )  # fmt: skip
    return records


def miou(records: pathlib.Path, logdir: pathlib.Path, split: str, *flags: str) -> dict[str, float]:
    """Evaluates on a split; returns the mIoU by checkpoint, or of an ensemble."""
    if not list(logdir.rglob('*.json')):
        data = (f'--dataset_dir={records}', f'--eval_split={split}', '--eval_crop_size=369,481')
        run('eval', *data, f'--eval_logdir={logdir}', '--max_number_of_evaluations=1', *flags)
    contents = [json.loads(path.read_text()) for path in sorted(logdir.rglob('metrics-*.json'))]
    return {each['checkpoint']: each['miou'] for each in contents}


def averaged(data: pathlib.Path, workdir: pathlib.Path, start: pathlib.Path, steps: int) -> dict:
    """Trains twice from a checkpoint at a constant rate, and averages the weights; returns the mIoU of all on val."""
    records, sources = camvid.build(data, workdir / 'voc'), []
    for seed in (1, 2):
        logdir = workdir / f'source{seed}'
        sources.append(f'{logdir}/model.ckpt-{steps}')
        length = (f'--training_number_of_steps={steps}', f'--seed={seed}', f'--tf_initial_checkpoint={start}')
        run('train', *FURTHER, '--train_split=train', f'--dataset_dir={records}', f'--train_logdir={logdir}', *length)
    evaluated = (records, workdir / 'eval_sources', 'val', *camvid.NETWORK)
    measured = miou(*evaluated, *(f'--checkpoint_dir={path}' for path in [*sources, start]))
    result: dict = {'steps': steps, 'sources': [measured[path] for path in sources], 'start': measured[str(start)]}
    for name, flags in (('mean', ()), ('mean_without_batch_norms', ('--batch_norm_images=0',))):
        if not (workdir / name / 'checkpoint').exists():
            run('average_checkpoints', *sources, f'--output_dir={workdir / name}', *flags)
        (result[name],) = miou(
            records, workdir / f'eval_{name}', 'val', *camvid.NETWORK, f'--checkpoint_dir={workdir / name}'
        ).values()
    ensemble = ('--ensemble', *(f'--checkpoint_dir={path}' for path in sources))
    (result['ensemble'],) = miou(records, workdir / 'eval_both', 'val', *camvid.NETWORK, *ensemble).values()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--camvid', type=pathlib.Path, required=True)
    parser.add_argument('--workdir', type=pathlib.Path, required=True)
    parser.add_argument('--folds', type=int, default=3)
    parser.add_argument('--steps', type=int, default=200)
    parser.add_argument('--checkpoint', type=pathlib.Path, required=True)
    parser.add_argument('--further_steps', type=int, default=100)
    arguments = parser.parse_args()
    workdir, steps = arguments.workdir, arguments.steps
    records = build(arguments.camvid, workdir, arguments.folds)
    output = workdir / 'cross_validation'
    length = f'--training_number_of_steps={steps}'
    run('cross_validate', *TRAINING, f'--dataset_dir={records}', f'--output_dir={output}', length, '--save=errors')
    content = json.loads((output / 'cross_validation.json').read_text())
    checkpoints = [output / fold['checkpoint'] for fold in content['folds']]
    members = miou(records, workdir / 'eval_members', 'test', *(f'--checkpoint_dir={path}' for path in checkpoints))
    (ensemble,) = miou(records, workdir / 'eval_ensemble', 'test', '--ensemble', f'--checkpoint_dir={output}').values()
    weights = averaged(arguments.camvid, workdir / 'further', arguments.checkpoint, arguments.further_steps)
    result = {
        'steps': steps,
        'flags': TRAINING,
        'results': {key: content['results'][key] for key in ('figures', 'classes', 'images')},
        'test': {'members': [members[str(path)] for path in checkpoints], 'ensemble': ensemble},
        'mean_of_weights': weights,
    }
    path = _machine.write('cross_validation', result)
    figures = content['results']['figures']['mean IoU']
    print(
        f'mean IoU {figures["mean"]:.4f} (deviation {figures["deviation"]:.4f}), pooled {figures["pooled"]:.4f}; '
        f'on test: members {", ".join(f"{each:.4f}" for each in result["test"]["members"])}, ensemble {ensemble:.4f}; '
        f'mean of weights {weights["mean"]:.4f} of {", ".join(f"{each:.4f}" for each in weights["sources"])}: {path}'
    )


if __name__ == '__main__':
    main()
