"""The network of `deeplab demo` in 8 bits, after 8-bit training and without, beside its checkpoint.

    python benchmarks/quantization_of_demo.py --demo=deeplab_demo [--workdir=DIR]

DIR (by default the folder `8bit` in that of the demo) gets the training, which continues the demo's checkpoint, and the
exports. Prints one line and writes benchmarks/results/quantization_of_demo.json.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import _machine

STEPS = 300
RATE = '--adam_learning_rate=1e-4'  # a thirtieth of the demo's
WANTED = 0.01  # largest loss of mean IoU after 8-bit training
EXPORTED = ('format', 'variant', 'comparison', 'verified')


def run(program: str, *words: str) -> None:
    subprocess.run([sys.executable, '-m', 'deeplab', program, *words], check=True)


def export(checkpoint: pathlib.Path, path: pathlib.Path, *words: str) -> dict:
    run('export_model', f'--checkpoint_path={checkpoint}', f'--export_path={path}', '--format=tflite:int8', *words)
    entry = json.loads((path.parent / 'export.json').read_text())['exports'][path.name]
    return {name: entry[name] for name in EXPORTED}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--demo', type=pathlib.Path, required=True)
    parser.add_argument('--workdir', type=pathlib.Path)
    arguments = parser.parse_args()
    demo, workdir = arguments.demo, arguments.workdir or arguments.demo / '8bit'
    known = json.loads((demo / 'demo.json').read_text())
    crop = f'{known["height"] + 1},{known["width"] + 1}'
    data = [f'--dataset={demo}/voc/street.json', f'--dataset_dir={demo}/tfrecord']
    checkpoint = demo / 'train' / f'model.ckpt-{known["steps"]}'
    training = [word for word in known['training'] if not word.startswith('--adam_learning_rate')]
    training += [RATE, f'--train_crop_size={crop}', f'--training_number_of_steps={STEPS}']
    log = workdir / 'train'
    line = [*data, *known['network'], *training, '--quantize_delay_step=0']
    run('train', *line, f'--tf_initial_checkpoint={checkpoint}', f'--train_logdir={log}')
    verified = [*data, *known['network'], '--verify_split=val', f'--crop_size={crop}', '--num_classes=8']
    trained = export(log / f'model.ckpt-{STEPS}', workdir / 'trained.tflite', *verified, '--quantize_delay_step=0')
    rounded = export(checkpoint, workdir / 'rounded.tflite', *verified)
    miou = rounded['verified']['checkpoint_miou']
    loss = miou - trained['verified']['miou']
    result = {'wanted_loss': WANTED, 'steps': STEPS, 'rate': RATE, 'checkpoint_miou': miou, 'loss': loss}
    path = _machine.write('quantization_of_demo', result | {'trained': trained, 'rounded': rounded})
    print(
        f'val mIoU {miou:.4f} in float32, {trained["verified"]["miou"]:.4f} in int8 after {STEPS} steps of 8-bit '
        f'training (loss {loss:+.4f}, at most {WANTED}), {rounded["verified"]["miou"]:.4f} in int8 without: {path}'
    )


if __name__ == '__main__':
    main()
