"""Tests for programs/doctor.py on small data sets with one fault each.

Covers checks/facts.py, checks/inspection.py, checks/findings.py, checks/file_rules.py, checks/label_rules.py,
checks/split_rules.py, checks/suggestion.py and options/doctor.py.
"""

import dataclasses
import json
import shlex

import numpy as np
import pytest
from PIL import Image

from deeplab import cli
from deeplab.checks import diagnosis, html_report, inspection, split_rules, suggestion
from deeplab.datasets import build_folder_data, descriptor, example
from deeplab.errors import DataError, OptionError
from deeplab.options import DoctorOptions
from deeplab.programs import doctor
from tests.helpers import damage, dataset_files

SIZE = (40, 48)
SPLITS = {'train': 4, 'val': 2}
IN_RECORDS = 'in records'
IN_FILES = 'in files'


def test_folds_are_no_parts_of_each_other():
    assert split_rules.is_part('train', 'trainval') and split_rules.is_part('trainval', 'val')
    assert not split_rules.is_part('fold1', 'fold10') and not split_rules.is_part('train', 'val')


def _mask():
    """[40, 48] ids 0 to 2 and a border of 255."""
    ids = np.zeros(SIZE, np.uint8)
    ids[:, 24:] = 1
    ids[20:] = 2
    ids[:2] = 255
    return ids


def _clean():
    """(image, mask) files of each split."""
    return {
        split: [
            [dataset_files.jpeg(dataset_files.pixels(*SIZE, seed=seed + 10 * len(split))), dataset_files.png(_mask())]
            for seed in range(n)
        ]
        for split, n in SPLITS.items()
    }


def _masks(data, change, splits=SPLITS):
    """Changes every mask: `change` from ids to a file."""
    for split in splits:
        for sample in data[split]:
            sample[1] = change(_mask())


def _write(folder, data, kind):
    """Writes a data set as records or files; returns its folder."""
    for split, samples in data.items():
        named = [(f'{split}{number}', *sample) for number, sample in enumerate(samples)]
        if kind == IN_RECORDS:
            records = [example.encode(image, 'jpeg', name, *SIZE, 3, mask) for name, image, mask in named]
            dataset_files.write_shard(folder / f'{split}-00000-of-00001.tfrecord', records)
            continue
        for inner in ('images', 'masks', 'lists'):
            (folder / inner).mkdir(parents=True, exist_ok=True)
        for name, image, mask in named:
            (folder / 'images' / f'{name}.{"jpg" if image[:2] == bytes([255, 216]) else "png"}').write_bytes(image)
            if mask is not None:
                (folder / 'masks' / f'{name}.png').write_bytes(mask)
        # Blank lines, other line ends and extensions are accepted.
        (folder / 'lists' / f'{split}.txt').write_bytes(b'\r\n\n'.join(f'{name}.jpg'.encode() for name, *_ in named))
    return folder


def _examine(folder, num_classes=3, **more):
    return doctor.run(DoctorOptions(str(folder), num_classes=num_classes, output=str(folder / 'found.json'), **more))


def _rules(result, *severities):
    return {finding.rule for finding in result.findings if finding.severity in severities}


@pytest.mark.parametrize('kind', [IN_RECORDS, IN_FILES])
def test_clean_data_set(tmp_path, kind):
    result = _examine(_write(tmp_path, _clean(), kind))
    assert not _rules(result, 'error', 'warning')
    assert result.status == 0
    assert result.report.splitlines()[-1].startswith('No faults found (0 errors, 0 warnings')
    content = json.loads((tmp_path / 'found.json').read_text())
    assert content['splits']['train']['images'] == 4
    assert content['splits']['val']['sizes'] == [[40, 48, 2]]
    # Three classes of 432, 432 and 960 pixels in each image.
    assert [row['share'] for row in content['classes']] == pytest.approx([432 / 1824, 432 / 1824, 960 / 1824])
    assert [row['label_weight'] for row in content['classes']] == pytest.approx([1, 1, 0.45])


def test_builders_take_palettes_and_rotate_so_files_are_no_fault(tmp_path):
    data = _clean()
    _masks(data, dataset_files.palette_png)
    data['train'][0][0] = dataset_files.with_exif(
        dataset_files.jpeg(dataset_files.pixels(48, 40, seed=77)), dataset_files.exif(6)
    )
    result = _examine(_write(tmp_path, data, IN_FILES))
    assert not _rules(result, 'error', 'warning')
    assert 'Split train: 4 images in files, all 40 x 48 pixels' in result.report  # as in the records


def test_a_missing_mask_leaves_the_colors_of_a_description_their_meaning(tmp_path):
    data = _clean()
    colors = np.zeros((256, 3), np.uint8)
    colors[:3] = [(200, 0, 0), (0, 200, 0), (0, 0, 200)]
    _masks(data, lambda ids: dataset_files.png(colors[ids]))
    folder = _write(tmp_path, data, IN_FILES)
    (folder / 'colors.txt').write_text('200 0 0 a\n0 200 0 b\n0 0 200 c\n0 0 0 ignore\n')
    (folder / 'dataset.yaml').write_text('num_classes: 3\nimages: images\nmasks: masks\ncolors: colors.txt\n')
    assert not _rules(_examine(folder, num_classes=None), 'error', 'warning')
    next((folder / 'masks').rglob('*.png')).unlink()
    assert _rules(_examine(folder, num_classes=None), 'error', 'warning') == {'no_mask'}


def test_splits_of_other_names_and_folds(tmp_path):
    folder = _write(tmp_path, _clean(), IN_RECORDS)
    result = _examine(folder, train_split='trian')
    assert _rules(result, 'error', 'warning') == {'no_training'} and "There is no split 'trian'" in result.report
    assert '--fix' not in result.report
    for path in folder.glob('*.tfrecord'):
        split, rest = path.name.split('-', 1)
        path.rename(folder / f'{"fold1" if split == "train" else "fold2"}-{rest}')
    result = _examine(folder)
    assert not _rules(result, 'error', 'warning')
    assert 'Classes of all folds' in result.report and result.table[1]['images'] == sum(SPLITS.values())


def _build(result, folder):
    """Builds records by the suggested command; returns the number of images in each split."""
    _, program, *words = shlex.split(next(line for line in result.suggestion.lines if 'build_folder' in line))
    options = dataclasses.replace(cli.options_of(program, words), output_dir=str(folder / 'built'))
    splits = build_folder_data.run(options)['splits']
    return {split: facts['images'] for split, facts in splits.items()}


def test_suggested_records_are_those_of_the_splits_in_spite_of_other_files(tmp_path):
    folder = _write(tmp_path, _clean(), IN_FILES)
    (folder / 'images/lost.jpg').write_bytes(dataset_files.jpeg(dataset_files.pixels(*SIZE)))
    (folder / 'masks/old.png').write_bytes(dataset_files.png(_mask()))
    (folder / 'dataset.json').write_text(json.dumps({'num_classes': 3, 'class_names': ['a', 'b', 'c']}))
    result = _examine(folder, num_classes=None)
    assert _rules(result, 'error', 'warning', 'note') == {'unused_masks'}
    assert _build(result, tmp_path) == SPLITS
    assert descriptor.load(str(tmp_path / 'built/dataset.yaml')).class_names == ('a', 'b', 'c')
    for line in result.suggestion.lines[-2:]:
        assert '--dataset=' not in line


def test_a_given_description_is_in_the_suggested_command_that_builds(tmp_path):
    folder = _write(tmp_path, _clean(), IN_FILES)
    path = tmp_path / 'given.json'
    path.write_text(json.dumps({'num_classes': 3, 'class_names': ['a', 'b', 'c']}))
    result = _examine(folder, num_classes=None, dataset=str(path))
    assert f'--dataset={path} ' in next(line for line in result.suggestion.lines if 'build_folder' in line)
    assert _build(result, tmp_path) == SPLITS


def test_suggested_names_of_splits_are_those_that_the_builder_gives(tmp_path):
    for number, name in enumerate(('training/a', 'training/b', 'valid/a', 'testing/a')):
        for kind, content in (
            ('images', dataset_files.jpeg(dataset_files.pixels(*SIZE, seed=number))),
            ('masks', dataset_files.png(_mask())),
        ):
            path = tmp_path / kind / f'{name}.{"jpg" if kind == "images" else "png"}'
            if kind == 'images' or not name.startswith('test'):  # a test split without masks
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
    result = _examine(tmp_path)
    assert not _rules(result, 'error', 'warning')
    assert _build(result, tmp_path) == {'train': 2, 'val': 1}
    *_, train, evaluate = result.suggestion.lines
    assert '--train_split=train ' in train and '--eval_split=val ' in evaluate
    (tmp_path / 'masks/extra').mkdir()
    (tmp_path / 'images/extra').mkdir()  # a split whose name the builder does not know: lists of a copy keep it
    for folder, extension in (('images', 'jpg'), ('masks', 'png')):
        content = (tmp_path / folder / f'training/a.{extension}').read_bytes()
        (tmp_path / folder / f'extra/c.{extension}').write_bytes(content)
    copy, build, *_, train, _ = _examine(tmp_path).suggestion.lines
    assert '--fix=' in copy and '_repaired/lists' in build and '--train_split=training ' in train


def test_a_split_without_masks_that_is_not_used_is_no_fault(tmp_path):
    data = _clean()
    data['test'] = [[dataset_files.jpeg(dataset_files.pixels(*SIZE, seed=9)), None]]
    folder = _write(tmp_path, data, IN_RECORDS)
    result = _examine(folder)
    assert 'no_mask' in _rules(result, 'note') and result.status == 0
    assert result.report.startswith('Split train: 4 ') and '--fix' not in result.report  # it would drop the split
    assert 'no_mask' in _rules(_examine(folder, eval_split='test'), 'error')


def _unsplit(folder, mask, suffix=''):
    """Writes images and masks without splits."""
    for number in range(4):
        for kind, name, content in (
            ('images', f'{number}.jpg', dataset_files.jpeg(dataset_files.pixels(*SIZE, seed=number))),
            ('masks', f'{number}{suffix}.png', mask(_mask())),
        ):
            (folder / kind).mkdir(exist_ok=True)
            (folder / kind / name).write_bytes(content)


def test_a_common_ending_of_the_names_of_masks_is_in_the_suggestion(tmp_path):
    _unsplit(tmp_path, dataset_files.png, '_mask')
    result = _examine(tmp_path)
    assert _rules(result, 'error') == {'misnamed'}
    assert "mask_suffix='_mask', also of deeplab build_folder_data" in result.report
    assert _build(result, tmp_path) == {'train': 3, 'val': 1}


def test_colors_whose_meaning_is_not_given(tmp_path):
    colors = np.zeros((256, 3), np.uint8)
    colors[:3] = [(128, 64, 0), (0, 255, 0), (0, 0, 255)]
    _unsplit(tmp_path, lambda ids: dataset_files.png(colors[ids]))
    result = _examine(tmp_path, num_classes=None)
    assert 'Classes: unknown' in result.report
    assert "'0 0 255 NAME'" in result.report  # the most frequent one
    assert 'The colors are 0 0 255, 0 255 0, 128 64 0, 0 0 0.' in result.report
    assert '--colors=colors.txt' in result.suggestion.lines[0] and '--num_classes' not in result.suggestion.lines[0]
    assert 'doctor' in result.report and f'--fix={tmp_path.name}_repaired --colors=colors.txt' in result.report
    (tmp_path / 'labelmap.txt').write_text('# label:color_rgb:parts:actions\n')  # that of CVAT
    assert f'--colors={tmp_path}/labelmap.txt' in _examine(tmp_path, num_classes=None).suggestion.lines[0]
    table = tmp_path / 'colors.txt'
    table.write_text('128 64 0 a\n0 255 0 b\n')
    result = _examine(tmp_path, num_classes=None, colors=str(table))
    assert 'gives the colors a meaning, but 2 of 4 are not in it: 0 0 255, 0 0 0. Add them' in result.report
    table.write_text('128 64 0 a\n0 255 0 b\n0 0 255 c\n0 0 0 ignore\n')
    result = _examine(tmp_path, num_classes=None, colors=str(table))
    assert f"colors='{table}' has all of these 4 colors: convert the masks with it" in result.report
    assert f'--colors={table}' in result.suggestion.lines[0]
    with pytest.raises(OptionError, match='no_table'):
        _examine(tmp_path, colors=str(tmp_path / 'no_table.txt'))
    copy = tmp_path / 'copy'
    result = _examine(tmp_path, num_classes=None, fix=str(copy), colors=str(table))
    assert descriptor.load(str(copy / 'dataset.yaml')).class_names == ('a', 'b', 'c')
    assert not (copy / 'lists').exists()  # so that programs set aside a part for evaluation
    assert not result.remaining and '--eval_split=val' in result.suggestion.lines[-1]


def test_a_described_folder_with_a_missing_mask_has_the_splits_that_programs_read(tmp_path):
    _unsplit(tmp_path, dataset_files.png)
    (tmp_path / 'dataset.yaml').write_text('num_classes: 3\nimages: images\nmasks: masks\n')
    (tmp_path / 'masks/2.png').unlink()
    result = _examine(tmp_path, num_classes=None)
    assert 'no_mask' in _rules(result, 'error') and list(result.data.splits) == ['all']
    *_, train, evaluate = result.suggestion.lines
    assert '--train_split=train ' in train and '--eval_split=val --eval_every=200 ' in train
    assert '--eval_split=val ' in evaluate


def test_gray_levels_in_equal_channels_are_no_colors(tmp_path):
    _unsplit(tmp_path, lambda ids: dataset_files.png(np.repeat(ids[..., np.newaxis], 3, axis=2)))
    result = _examine(tmp_path)
    assert 'gray levels in equal channels' in result.report
    assert 'The colors are' not in result.report and '--colors' not in result.suggestion.lines[0]


def test_listed_name_without_an_image(tmp_path):
    folder = _write(tmp_path, _clean(), IN_FILES)
    (folder / 'images/train2.jpg').unlink()
    found = [finding for finding in _examine(folder).findings if finding.rule == 'no_image']
    assert [finding.cases for finding in found] == [('train2.jpg',)]
    assert found[0].what.startswith("1 of 4 samples of split 'train' is listed")


def test_incomplete_shards(tmp_path):
    folder = _write(tmp_path, _clean(), IN_RECORDS)
    (folder / 'val-00000-of-00001.tfrecord').rename(folder / 'val-00000-of-00002.tfrecord')
    found = _examine(folder)
    assert 'shards' in _rules(found, 'error')
    assert 'val-00001-of-00002.tfrecord' in found.report


@pytest.mark.parametrize(
    ('ids', 'advice'), [((1, 2, 3), 'subtract 1'), ((0, 85, 170), 'gray level'), ((0, 1, 2), None)]
)
def test_without_a_number_of_classes_the_ids_tell(tmp_path, ids, advice):
    data = _clean()
    _masks(
        data,
        lambda mask: dataset_files.png(np.where(mask == 255, 255, np.array([*ids, *[0] * 253])[mask]).astype(np.uint8)),
    )
    result = _examine(_write(tmp_path, data, IN_RECORDS), num_classes=None)
    assert ('ids' in _rules(result, 'error')) == (advice is not None)
    assert (advice or 'assumed from the ids') in result.report


def test_ids_that_lie_between_others_by_chance_are_not_soft_edges(tmp_path):
    data = _clean()
    noise = np.random.default_rng(0).integers(0, 40, SIZE, np.uint8)
    _masks(data, lambda ids: dataset_files.png(noise))
    assert _rules(_examine(_write(tmp_path, data, IN_RECORDS)), 'error') == {'ids'}


def test_an_id_behind_a_gap_and_the_command_that_repairs(tmp_path):
    data = _clean()
    data['train'][1][0] = data['train'][1][0][:-100]
    data['val'][0][1] = dataset_files.png(np.where(_mask() == 2, 77, _mask()).astype(np.uint8))
    folder = _write(tmp_path, data, IN_FILES)
    result = _examine(folder, num_classes=None, eval_split='train')
    (found,) = [finding for finding in result.findings if finding.rule == 'missing_classes']
    assert 'Id 3 does not occur' in found.what and 'id 77 on 960 pixels' in found.what and 'num_classes=3' in found.fix
    content = json.loads((tmp_path / 'found.json').read_text())
    assert [row['id'] for row in content['classes']] == [0, 1, 2]
    _, program, *words = shlex.split(content['repair_line'])
    options = cli.options_of(program, words)
    assert (options.data, options.eval_split, options.fix) == (str(folder), 'train', f'{tmp_path.name}_repaired')
    assert content['repair_line'] in result.report


def test_what_concerns_a_whole_split_comes_first(tmp_path):
    data = _clean()
    data['train'][1][0] = data['train'][1][0][:-100]
    _masks(data, lambda ids: dataset_files.png(np.where(ids == 1, 255, 0).astype(np.uint8)), ['val'])
    found = _examine(_write(tmp_path, data, IN_FILES)).findings
    assert [finding.rule for finding in found if finding.severity == 'error'] == ['zero_and_255', 'corrupt']


def test_uneven_and_thin_classes(tmp_path):
    data = _clean()
    line = _mask()
    line[line != 255] = 0
    line[20, 5:9] = 1
    line[22, 5:9] = 2
    _masks(data, lambda ids: dataset_files.png(line))
    result = _examine(_write(tmp_path, data, IN_RECORDS))
    assert _rules(result, 'note') == {'uneven', 'thin'}
    assert '--label_weights=auto' in result.suggestion.lines[1]


def test_splits_of_folders(tmp_path):
    """images/train beside masks/train, and train/images beside train/masks."""
    for number, (outer, inner) in enumerate(
        (('images', 'train'), ('masks', 'train'), ('val', 'images'), ('val', 'masks'))
    ):
        content = (
            dataset_files.png(_mask())
            if 'masks' in (outer, inner)
            else dataset_files.jpeg(dataset_files.pixels(*SIZE, seed=number))
        )
        folder = tmp_path / ('one' if inner == 'train' else 'other') / outer / inner
        folder.mkdir(parents=True)
        (folder / ('a.png' if 'masks' in (outer, inner) else 'a.JPG')).write_bytes(content)
    assert 'Split train: 1 image in files' in _examine(tmp_path / 'one').report
    other = _examine(tmp_path / 'other', ignore_label=254)
    assert 'Split val: 1 image in files' in other.report
    copy, build, *_ = other.suggestion.lines  # the builder takes one folder of images
    assert copy.endswith('--fix=other_repaired') and '--image_folder=other_repaired/images' in build
    assert '--num_classes=3 --ignore_label=254' in build


def test_folders_that_are_no_splits(tmp_path):
    """Images in folders of cities, as Cityscapes has them, and a list with their paths."""
    for number, name in enumerate(('ulm/a', 'ulm/b', 'bonn/a')):
        for folder, content in (
            ('images', dataset_files.jpeg(dataset_files.pixels(*SIZE, seed=number))),
            ('masks', dataset_files.png(_mask())),
        ):
            path = tmp_path / folder / f'{name}.{"jpg" if folder == "images" else "png"}'
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    result = _examine(tmp_path)
    assert 'Split all: 3 images in files' in result.report
    assert result.report.splitlines()[-1].startswith('No errors found (0 errors, 1 warning')
    *_, train, evaluate = result.suggestion.lines  # the builder sets images aside
    assert '--train_split=train' in train and '--eval_split=val' in evaluate
    (tmp_path / 'train.txt').write_text('images/ulm/a.jpg masks/ulm/a.png\nbonn/a\n')
    (tmp_path / 'val.txt').write_text('./ulm/b.jpg\n')
    (tmp_path / 'classes.txt').write_text('road\nsky\n')
    assert _build(_examine(tmp_path), tmp_path) == {'train': 2, 'val': 1}
    result = _examine(tmp_path, fix=str(tmp_path / 'copy'))
    assert 'Split train: 2 images' in result.report and 'Split val: 1 image ' in result.report
    assert [finding.rule for finding in result.findings] == ['other_texts']
    copied = sorted(str(path.relative_to(tmp_path / 'copy/images')) for path in (tmp_path / 'copy/images').rglob('*.*'))
    assert copied == ['bonn/a.jpg', 'ulm/a.jpg', 'ulm/b.jpg']
    assert not result.remaining


def test_bad_input(tmp_path):
    (tmp_path / 'notes.txt').write_text('')
    with pytest.raises(DataError, match=r'(?s)neither shards.*1 \.txt'):
        _examine(tmp_path)
    with pytest.raises(DataError, match='cannot be read'):
        doctor.run(DoctorOptions(str(tmp_path / 'none'), output=str(tmp_path / 'a.json')))
    with pytest.raises(OptionError, match='output'):
        doctor.run(DoctorOptions(str(tmp_path), output=str(tmp_path / 'notes.txt' / 'a.json')))
    with pytest.raises(OptionError, match='image_folder.*mask_folder'):
        _examine(tmp_path, image_folder=str(tmp_path))
    with pytest.raises(OptionError, match='num_classes'):
        DoctorOptions('records', num_classes=0)


def test_a_damaged_array_is_one_finding_and_the_other_images_are_examined(tmp_path):
    data = _clean()
    text = b"{'descr': '|u1', 'fortran_order': False, 'shape': (-4, 5, 3), }"
    damaged = b'\x93NUMPY\1\0' + len(text).to_bytes(2, 'little') + text
    folder = _write(tmp_path, data, IN_FILES)
    (folder / 'images/train0.jpg').rename(folder / 'images/train0.npy')
    (folder / 'images/train0.npy').write_bytes(damaged)
    result = _examine(folder)
    (finding,) = (finding for finding in result.findings if finding.severity == 'error')
    assert finding.rule == 'corrupt'
    assert finding.cases == ('train0.npy: its header is invalid (shape is missing or damaged)',)
    assert json.loads((folder / 'found.json').read_text())['splits']['train']['images'] == 3


def test_a_damaged_file_of_another_format_has_no_format():
    content = dataset_files.encoded(Image.fromarray(dataset_files.pixels()), 'DDS')
    assert inspection.other_format(content) == 'DDS'
    for changed in damage.damaged(content, 100):
        assert inspection.other_format(changed) in ('DDS', '')
        html_report._photo(changed)


def test_thin_and_between_pixels():
    ids = np.array([[0, 1, 2, 2], [0, 0, 2, 2], [0, 0, 2, 2]], np.uint8)
    assert inspection.thin_pixels(ids, 2)[:3].tolist() == [1, 1, 0]
    assert inspection.between_pixels(ids)[:3].tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ('minutes', 'stride', 'steps', 'every', 'from_scratch'),
    # 3e9 operations a second, for 4 crops of 49 x 49 (41 x 49 at stride 8) with 166e3 or 78e3 for each pixel, and a
    # tenth more for the validations; each of these takes as long as 1/6 step.
    [
        (10.0, 16, 1026, 103, 2000),
        (1.0, 16, 102, 11, 218),
        (1.0, 8, 49, 5, 104),
        (0.1, 16, 10, 2, 21),
        (1e-6, 16, 1, 1, 1),
        (1e6, 16, 2000, 200, 2000),
    ],
)
def test_suggested_steps_follow_the_time(tmp_path, monkeypatch, minutes, stride, steps, every, from_scratch):
    folder = _write(tmp_path, _clean(), IN_FILES)
    monkeypatch.setattr(suggestion.memory, 'free', lambda: 1 << 40)
    monkeypatch.setattr(suggestion.processors, 'product_speed', lambda: 3e9)
    result = _examine(folder, minutes=minutes, output_stride=stride)
    assert (result.suggestion.steps, result.suggestion.from_scratch_steps) == (steps, from_scratch)
    assert f' --eval_split=val --eval_every={every} --training_number_of_steps={steps} ' in result.suggestion.lines[2]
    recipe = 'small_data_long' if minutes > 30 else 'small_data'  # which needs 3000 steps of 94e3 for each pixel
    assert result.suggestion.from_scratch.endswith(f' --training_number_of_steps={from_scratch} --recipe={recipe}')
    shown = f'Steps for at most {minutes:g} minutes: {steps} from the checkpoint, {from_scratch} from scratch.'
    assert shown in result.report


def test_large_photos_are_resized(tmp_path, monkeypatch):
    assert suggestion._resized(np.array([[3000, 4000], [4000, 2000]])).tolist() == [[321, 433], [513, 257]]
    folder = _write(tmp_path, _clean(), IN_FILES)
    monkeypatch.setattr(suggestion.split_rules, 'LARGEST_UNRESIZED', 20)
    monkeypatch.setitem(suggestion.split_rules.RESIZING, 'min_resize_value', 17)
    monkeypatch.setitem(suggestion.split_rules.RESIZING, 'max_resize_value', 33)
    found = _examine(folder).suggestion
    assert found.crop_size == found.eval_crop_size == (17, 33)
    for line in (found.lines[2], found.from_scratch, found.lines[-1]):
        assert ' --min_resize_value=17 --max_resize_value=33 --resize_factor=16 ' in line


def test_no_recipe_from_scratch_for_many_images(tmp_path, monkeypatch):
    folder = _write(tmp_path, _clean(), IN_FILES)
    assert _examine(folder).suggestion.from_scratch
    monkeypatch.setattr(suggestion, '_FEW_IMAGES', 3)  # there are 4
    result = _examine(folder)
    assert (result.suggestion.from_scratch, result.suggestion.from_scratch_steps) == ('', 0)
    assert diagnosis.WITHOUT_CHECKPOINT not in result.report


def test_suggestion_follows_the_memory(tmp_path, monkeypatch):
    folder = _write(tmp_path, _clean(), IN_FILES)
    monkeypatch.setattr(suggestion.memory, 'free', lambda: 1 << 40)
    large = _examine(folder).suggestion
    assert (large.crop_size, large.eval_crop_size) == ((49, 49), (49, 49))
    assert large.batch_size == 4  # images in train
    assert large.learning_rate == pytest.approx(0.0018)
    assert '--list_folder=' in large.lines[0]
    assert large.lines[0].startswith('deeplab build_folder_data') and '--dataset=' not in large.lines[2]
    assert '--recipe=fine_tune' in large.lines[2] and '--tf_initial_checkpoint=' in large.lines[2]
    assert '--recipe=small_data' in large.from_scratch and 'checkpoint' not in large.from_scratch
    assert '--preset=' not in large.lines[2]  # it would replace the description beside the records by that of VOC
    for line in (*large.lines, large.from_scratch):
        _, program, *words = shlex.split(line)
        cli.options_of(program, [word for word in words if 'dataset.json' not in word])  # the flags exist
    monkeypatch.setattr(suggestion.memory, 'free', lambda: 0)
    assert _examine(folder).suggestion.batch_size == 1
