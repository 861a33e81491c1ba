"""Training, evaluation, pictures and prediction from a description alone, with records and without."""

import json
import pathlib

import numpy as np
import pytest

from deeplab import cli, train, vis
from deeplab import eval as eval_program
from deeplab.datasets import build_folder_data
from deeplab.options import BuildFolderOptions, DoctorOptions
from deeplab.programs import doctor, predict, preview
from tests.helpers import dataset_files, training_setup

PALETTE = [[9, 9, 9], [128, 64, 0], [0, 255, 0]]
CLASSES = ['floor', 'chair', 'lamp']
pytestmark = pytest.mark.usefixtures('tiny_network')

NETWORK = ['--model_variant=tiny', '--aspp_convs_filters=8']


@pytest.fixture
def sources(tmp_path):
    """Folders of the same data set: images and masks that a description names, and records built from them."""
    photos = tmp_path / 'photos'
    for folder in ('images', 'masks'):
        (photos / folder).mkdir(parents=True)
    for seed in range(8):
        ids = dataset_files.ids(40, 60, seed=seed)
        mask = [
            dataset_files.png(ids),
            dataset_files.palette_png(ids),
            dataset_files.png(np.array(PALETTE, np.uint8)[ids]),
        ][seed % 3]
        (photos / 'images' / f'{seed}.jpg').write_bytes(dataset_files.jpeg(dataset_files.pixels(40, 60, seed)))
        (photos / 'masks' / f'{seed}.png').write_bytes(mask)
    content = {'num_classes': 3, 'class_names': CLASSES, 'palette': PALETTE, 'images': 'images', 'masks': 'masks'}
    (photos / 'dataset.json').write_text(json.dumps({**content, 'name': 'rooms', 'val_fraction': 0.4}))
    build_folder_data.run(
        BuildFolderOptions(
            image_folder=str(photos / 'images'), mask_folder=str(photos / 'masks'), val_fraction=0.4,
            dataset=str(photos / 'dataset.json'), output_dir=str(tmp_path / 'records'), num_shards=2,
        )
    )  # fmt: skip
    return photos, tmp_path / 'records'


def _run(program, module, *words):
    return module.run(cli.options_of(program, [str(word) for word in words]))


@pytest.mark.slow  # tests/datasets/test_described_folders.py shows that the bytes of the records are equal
def test_images_and_masks_give_what_records_give(sources, tmp_path, caplog):
    found = []
    for source in sources:
        logs = tmp_path / f'logs-{source.name}'
        data = f'--dataset_dir={source}'
        words = ['--train_crop_size=33,33', '--train_batch_size=2', '--training_number_of_steps=6', '--log_steps=1']
        _run('train', train, data, f'--train_logdir={logs}', *words, *NETWORK)
        checkpoint = f'--checkpoint_dir={logs}'
        once = '--max_number_of_evaluations=1'
        crop = '--eval_crop_size=49,65'
        evaluated = _run('eval', eval_program, data, checkpoint, f'--eval_logdir={logs}/eval', once, crop)
        pictures = _run(
            'vis', vis, data, checkpoint, f'--vis_logdir={logs}/vis', '--max_number_of_iterations=1',
            '--vis_crop_size=49,65', '--also_save_raw_predictions',
        )  # fmt: skip
        _run('preview', preview, data, f'--preview_path={logs}/preview.png', '--train_crop_size=33,33', *NETWORK)
        photo = sources[0] / 'images' / '0.jpg'
        described = f'--dataset={next(source.glob("dataset.*"))}'
        _run('predict', predict, f'--inputs={photo}', checkpoint, f'--output_dir={logs}/predicted', described)
        run = json.loads((logs / 'run.json').read_text())['runs'][-1]
        found.append(
            {
                'losses': training_setup.losses(logs),
                'miou': evaluated.rounds[0].metrics.miou,
                'classes': list(evaluated.rounds[0].metrics.class_iou),
                'digest': run['records']['digest'],
                'preview': (logs / 'preview.png').read_bytes(),
                'pictures': _files(pathlib.Path(pictures.raw_dir).parent),
                'predicted': _files(logs / 'predicted', '**/*.png'),
            }
        )
    folders, records = found
    assert len(folders['losses']) == 6 and len(folders['pictures']) > 3 and folders['predicted']
    assert folders == records
    assert 'contradicts' not in caplog.text and 'have changed' not in caplog.text


def _files(folder, pattern='*/*.png'):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.glob(pattern))}


def test_the_doctor_reads_what_the_description_names(sources, tmp_path):
    photos, records = (
        doctor.run(DoctorOptions(str(source), output=str(tmp_path / f'{source.name}.json'))) for source in sources
    )
    assert [finding.rule for finding in photos.findings] == [finding.rule for finding in records.findings]
    facts = [json.loads(pathlib.Path(result.path).read_text()) for result in (photos, records)]
    assert facts[0]['classes'] == facts[1]['classes'] and facts[0]['splits'].keys() == {'train', 'val'}


def test_a_contradiction_is_named(sources):
    values = cli.parse_flags(cli.find_program('preview'), [f'--dataset_dir={sources[1]}', '--dataset=camvid'])
    assert values['dataset'] == 'camvid'
    (warning,) = values.warnings
    assert 'dataset.yaml' in warning and 'num_classes 3, not 11' in warning and '--dataset is used' in warning
    preset = [f'--dataset_dir={sources[1]}', '--preset=mobilenetv2_coco_voc_trainaug']
    assert cli.parse_flags(cli.find_program('train'), [*preset, '--train_logdir=a'])['dataset'].endswith('dataset.yaml')
    words = [*preset, '--checkpoint_dir=a', '--eval_logdir=b']  # which runs the network of the preset
    evaluated = cli.parse_flags(cli.find_program('eval'), words)
    assert evaluated['dataset'] == 'pascal_voc_seg' and 'num_classes 3, not 21' in evaluated.warnings[0]
    same = cli.parse_flags(
        cli.find_program('preview'), [f'--dataset_dir={sources[1]}', f'--dataset={sources[0] / "dataset.json"}']
    )
    assert not same.warnings
    other = sources[0] / 'other.json'
    other.write_text(json.dumps({'num_classes': 3, 'class_names': ['floor', 'lamp', 'chair']}))
    named = cli.parse_flags(cli.find_program('preview'), [f'--dataset_dir={sources[1]}', f'--dataset={other}'])
    assert "class 1 is 'chair', not 'lamp'" in named.warnings[0]
