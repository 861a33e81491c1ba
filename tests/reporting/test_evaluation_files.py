"""Metrics files of a run: which of them one curve may connect."""

import json
import os

import pytest

from deeplab.reporting import evaluation_files


@pytest.fixture
def write(tmp_path):
    """Writes a metrics file; the later one is the newer."""

    def file(step, folder='eval', **content):
        (tmp_path / folder).mkdir(exist_ok=True)
        number = len(list(tmp_path.glob('*/*')))
        path = tmp_path / folder / f'metrics-{step}-{number}.json'
        path.write_text(json.dumps({'global_step': step, 'class_iou': {}, 'miou': number / 100, **content}))
        os.utime(path, (number, number))

    return file


def read(folder, *names):
    return evaluation_files.read([str(folder / name) for name in names or ('eval',)])


def test_of_two_files_of_one_step_the_newer_one_is_read(write, tmp_path):
    write(7, split='val')
    write(7, 'other', split='val')
    (only,) = read(tmp_path, 'eval', 'other').evaluations
    assert only.content['miou'] == 0.01
    (only,) = read(tmp_path, 'other', 'eval').evaluations
    assert only.content['miou'] == 0.01


def test_a_curve_has_one_split_scale_and_precision(write, tmp_path):
    defaults = {'eval_scales': [1.0], 'add_flipped_images': False, 'precision': 'float32'}
    write(7, flags={'eval_split': 'val'})
    write(9, flags={'eval_split': 'val', **defaults})
    write(9, flags={'eval_split': 'val', 'precision': 'bfloat16'})
    write(9, flags={'eval_split': 'test'})
    write(9, flags={'eval_split': 'val', 'eval_scales': [0.5, 1.0]})
    found = read(tmp_path)
    assert [(each.step, each.settings['split']) for each in found.evaluations] == [(7, 'val'), (9, 'val')]
    assert found.others == 3
    assert found.note() == (
        'The curves of the IoU show the figures of scales 1.0, split val, precision float32; 3 metrics files of other '
        'settings exist.'
    )


def test_the_precision_that_auto_chose_counts(write, tmp_path):
    write(7, split='val', precision='bfloat16', flags={'precision': 'auto'})
    (only,) = read(tmp_path).evaluations
    assert only.settings['precision'] == 'bfloat16'


@pytest.mark.parametrize(
    'name, here, there, text',
    [
        ('crop_size', [361, 481], [513, 513], 'crop size 361 x 481'),
        ('crop_size', [361, 481], None, 'crop size 361 x 481'),
        ('output_stride', 16, 8, 'output stride 16'),
        ('records', 'sha256:0123456789abcdef', 'sha256:1', 'records sha256:0123456789ab...'),
        ('min_resize_value', None, 257, 'minimum size not set'),
        ('moving_average', False, True, 'moving averages no'),
    ],
)
def test_a_curve_has_the_settings_of_most_steps(write, tmp_path, name, here, there, text):
    write(2, split='val', **{name: here})
    write(4, split='val', **{name: here})
    write(6, split='val', **{name: there})
    found = read(tmp_path)
    assert [each.step for each in found.evaluations] == [2, 4]
    assert found.note() == f'The curves of the IoU show the figures of {text}; 1 metrics file of other settings exists.'


def test_eval_and_validation_of_the_same_settings_make_one_curve(write, tmp_path):
    write(2, split='val', crop_size=[361, 481], records='sha256:1')
    write(4, split='val')  # of a version that wrote no crop size
    write(6, 'other', flags={'eval_split': 'val', 'eval_crop_size': [361, 481], 'min_resize_value': None})
    write(8, 'other', flags={'eval_split': 'val', 'eval_crop_size': [513, 513], 'min_resize_value': None})
    found = read(tmp_path, 'eval', 'other')
    # Each file of its own settings, so the newest begins; the one without a crop size contradicts none.
    assert [each.step for each in found.evaluations] == [4, 8]
    write(10, split='val', crop_size=[361, 481], records='sha256:1')
    found = read(tmp_path, 'eval', 'other')
    assert [each.step for each in found.evaluations] == [2, 4, 6, 10]
    assert (found.others, found.differing) == (1, ('crop size',))
    assert found.shown(('split', 'crop size', 'minimum size')) == [('split', 'val'), ('crop size', '361 x 481')]


def test_an_export_is_not_on_the_curve_of_checkpoints(write, tmp_path):
    export = tmp_path / 'small.tflite'
    export.write_bytes(b'\x1c\0\0\0TFL3')
    write(2, split='val', checkpoint='gone/model.ckpt-2')
    write(4, split='val', checkpoint='gone/model.ckpt-4')
    write(4, split='val', checkpoint=str(export))
    found = read(tmp_path)
    assert [each.content['miou'] for each in found.evaluations] == [0.0, 0.01]
    assert found.differing == ('export',)


def test_curves_of_runs_with_other_settings(write, tmp_path):
    write(2, 'one', split='val', crop_size=[361, 481])
    write(2, 'two', split='val', crop_size=[513, 513])
    write(2, 'three', split='val')
    one, two, three, none = (read(tmp_path, name) for name in ('one', 'two', 'three', 'none'))
    assert two.note_beside(one, 'run one') == (
        'The curves of the IoU cannot be compared with run one: crop size 513 x 513 here, crop size 361 x 481 there.'
    )
    assert three.note_beside(one, 'one') is None and none.note_beside(one, 'one') is None
    assert none.note() is None and not none.evaluations
