"""Every broken data set of the zoo is named, no good one is, and a repaired copy has no fault any more.

Covers checks/agreement_rules.py, checks/edges.py, checks/repaired_copy.py, checks/sample_repair.py and
checks/diagnosis.py.
"""

import dataclasses
import errno
import io
import json
import os
import pathlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from deeplab.checks import edges, repaired_copy, sources, suggestion
from deeplab.checks.data_rules import RULES
from deeplab.datasets import descriptor, example, orientation, segmentation_dataset
from deeplab.errors import DataError, OptionError, OutputError
from deeplab.files import folder_lock, writing
from deeplab.options import DoctorOptions
from deeplab.programs import doctor
from tests.checks import test_class_rules
from tests.helpers import broken_datasets


def run(folder, **options):
    """What the doctor says; relative paths in options are in the folder."""
    paths = {key: str(folder / options[key]) for key in ('dataset', 'colors') if options.get(key)}
    given = {'num_classes': broken_datasets.CLASSES, 'output': str(folder.parent / 'found.json'), **options, **paths}
    return doctor.run(DoctorOptions(str(folder), **given))


def serious(findings):
    return {finding.rule for finding in findings if finding.severity != 'note'}


def write(tmp_path, name):
    broken = broken_datasets.BROKEN[name]
    made = broken_datasets.Zoo(broken.splits)
    broken.change(made)
    made.files['colors.txt'] = broken_datasets.TABLE.encode()
    return made.write(tmp_path / 'data', broken.kind)


@pytest.mark.parametrize('name', broken_datasets.BROKEN)
def test_names_the_fault_and_repairs_it(tmp_path, name):
    broken = broken_datasets.BROKEN[name]
    folder = write(tmp_path, name)
    before = {path: path.read_bytes() for path in folder.rglob('*') if path.is_file()}
    copy = tmp_path / 'copy'
    result = run(folder, **broken.options, **({**broken.fix, 'fix': str(copy)} if broken.heals else {}))
    assert set(broken.rules) <= {finding.rule for finding in result.findings}
    assert serious(result.findings) <= {*broken.rules, *broken.also}
    for finding in result.findings:
        assert finding.fix or finding.rule in ('ignored_class', 'histogram', 'one_class', 'missing_classes')
    assert before == {path: path.read_bytes() for path in folder.rglob('*') if path.is_file()}
    if not broken.heals:
        assert result.status == any(finding.severity == 'error' for finding in result.findings)
        return
    assert not serious(result.remaining) and result.status == 0
    assert not {finding.rule for finding in result.remaining} & set(broken.rules)
    log = json.loads((copy / 'repairs.json').read_text())
    done = {*log['repaired'], *(entry['rule'] for entry in log['left_out'])}
    assert set(broken.rules) - {'empty', 'unused_masks'} <= done


def test_palettes_are_compared_with_each_other_and_with_the_data_set(tmp_path):
    folder = write(tmp_path, 'palettes that disagree')
    (finding,) = (each for each in run(folder).findings if each.severity == 'error')
    assert finding.what.startswith('1 of 9 masks with palettes has other colors for ids than most of them')
    assert finding.cases == ('val_1.jpg: id 0 is 1 254 7 instead of 0 255 0',) and 'colors of' in finding.fix
    (folder / 'masks/val_1.png').write_bytes((folder / 'masks/val_2.png').read_bytes())
    palette = [broken_datasets.dataset_files.PALETTE[3 * number :][:3] for number in (0, 2, 1, 3)]
    (folder / 'dataset.json').write_text(json.dumps({'num_classes': 4, 'palette': palette}))
    found = run(folder, num_classes=None, dataset=str(folder / 'dataset.json')).findings
    (finding,) = (each for each in found if each.rule == 'palette_colors')
    assert finding.severity == 'warning' and finding.count == 9
    assert finding.cases[0] == 'train_0.jpg: id 1 is 1 254 7, as id 2'
    assert 'palette_colors' not in {each.rule for each in run(folder, colors=str(folder / 'colors.txt')).findings}


def test_what_a_description_leaves_out_is_in_the_report_and_not_in_the_log(tmp_path, caplog):
    result = run(write(tmp_path, 'left out by the description'))
    notes = {(finding.rule, finding.count): finding for finding in result.findings}
    assert set(notes) >= {('left_out', 1), ('unlisted', 1), ('other_texts', 1)}
    assert "lists/classes.txt' is left out: none of its lines is the name of an image" in result.report
    assert 'Left out 1 image without a mask.\n   bare\n' in result.report
    assert "lists/train.txt' repeats 1 name; each image is used once.\n   train_1\n" in result.report
    assert '1 image is in no list.\n   new\n' in result.report
    found = json.loads((tmp_path / 'found.json').read_text())['findings']
    assert ['bare'] in [finding['cases'] for finding in found if finding['rule'] == 'left_out']
    assert 'left out' not in caplog.text and 'Left out' not in caplog.text


@pytest.mark.parametrize('name', broken_datasets.CLEAN)
def test_finds_nothing_in_good_data_sets(tmp_path, name):
    kind, change, options = broken_datasets.CLEAN[name]
    made = broken_datasets.Zoo()
    if change is not None:
        change(made)
    result = run(made.write(tmp_path / 'data', kind), **options)
    assert not result.findings and result.status == 0


def test_the_zoo_has_an_animal_for_each_rule():
    of_classes = {
        rule for _, wanted in test_class_rules.FAULTS.values() for rule in wanted
    } | test_class_rules.OTHER_RULES
    named = {rule for broken in broken_datasets.BROKEN.values() for rule in broken.rules}
    of_options = {'contradicted_mask', 'no_training'}  # in tests/programs/test_doctor_folds.py and test_doctor.py
    assert named | of_classes | of_options == set(RULES)
    assert (
        len(broken_datasets.BROKEN) >= 40
        and sum(len(broken.rules) > 1 for broken in broken_datasets.BROKEN.values()) >= 2
    )


def test_a_copy_needs_a_new_folder_and_something_to_keep(tmp_path):
    made = broken_datasets.Zoo({'train': 2})
    broken_datasets.BROKEN['masks in color'].change(made)
    folder = made.write(tmp_path / 'data', 'files')
    with pytest.raises(OptionError, match='fix=.*exists already.*never repaired in place'):
        run(folder, fix=str(folder))
    with pytest.raises(OutputError, match='(?s)No image can be kept.*2 by rule color_mask.*colors') as caught:
        run(folder, fix=str(tmp_path / 'copy'))
    assert '2 of 2 samples' in caught.value.report
    assert sorted(path.name for path in tmp_path.iterdir()) == ['data']
    with pytest.raises(OptionError, match='ignore_other_ids=.*fix'):
        DoctorOptions('data', ignore_other_ids=True, num_classes=3)
    with pytest.raises(OptionError, match='ignore_other_ids=True needs .*num_classes'):
        run(folder, fix=str(tmp_path / 'copy'), num_classes=None, ignore_other_ids=True)


def test_what_a_killed_run_has_left_of_a_copy_is_removed(tmp_path):
    folder = broken_datasets.Zoo({'train': 3}).write(tmp_path / 'data', 'files')
    for left in ('copy.999999999.partial/images', 'copy.1.partial', 'other.999999999.partial'):  # 1 is running
        (tmp_path / left).mkdir(parents=True)
    run(folder, fix=str(tmp_path / 'copy'))
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {'copy', 'copy.1.partial', 'data', 'found.json', 'other.999999999.partial'}


def test_a_run_that_was_killed_after_the_copy_is_continued_by_the_same_line(tmp_path, monkeypatch):
    folder, copy = write(tmp_path, 'small mask and cut image'), str(tmp_path / 'copy')
    monkeypatch.setattr(suggestion.memory, 'free', lambda: 1 << 40)  # reports contain it
    with monkeypatch.context() as patch:
        patch.setattr(doctor, '_with_copy', lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(folder, fix=copy)
    with pytest.raises(OptionError, match='exists already'):  # another copy is wanted
        run(folder, fix=copy, ignore_label=7)
    with monkeypatch.context() as patch:
        patch.setattr(repaired_copy, 'write', lambda *_: pytest.fail('it is copied again'))
        report = run(folder, fix=copy).report
    assert report == run(folder, fix=copy + '2').report.replace(copy + '2', copy)
    assert (tmp_path / 'copy/repairs.json').read_bytes() == (tmp_path / 'copy2/repairs.json').read_bytes()
    with pytest.raises(OptionError, match='exists already'):
        run(folder, fix=copy)


def test_one_run_at_a_time_writes_a_copy(tmp_path):
    folder = broken_datasets.Zoo({'train': 3}).write(tmp_path / 'data', 'files')
    copy = str(tmp_path / 'copy')
    with folder_lock.held(copy, 'doctor', 'DoctorOptions.fix', is_beside=True):
        with pytest.raises(OptionError, match=f'fix=.*another doctor is running in this folder: process {os.getpid()}'):
            run(folder, fix=copy)
        run(folder, fix=copy + '2')
    run(folder, fix=copy)
    assert {path.name for path in tmp_path.iterdir()} == {'copy', 'copy2', 'data', 'found.json'}


@pytest.mark.parametrize('full', ['output', 'html'])
def test_a_full_disk_keeps_the_report(tmp_path, monkeypatch, full):
    folder = write(tmp_path, 'small mask and cut image')
    paths = {'output': str(tmp_path / 'out.json'), 'html': str(tmp_path / 'out.html')}
    monkeypatch.setattr(suggestion.memory, 'free', lambda: 1 << 40)  # reports contain it

    def write_or_fail(path, content, write_file=writing.write):
        if path == paths[full]:
            raise OSError(errno.ENOSPC, 'No space left on device')
        write_file(path, content)

    for left in ('out.json.999999999.partial', 'out.html.999999999.partial'):
        (tmp_path / left).touch()
    options = DoctorOptions(str(folder), num_classes=broken_datasets.CLASSES, fix=str(tmp_path / 'copy'), **paths)
    with monkeypatch.context() as patch:
        patch.setattr(writing, 'write', write_or_fail)
        with pytest.raises(OutputError, match=f'{full}: .*cannot be written: No space left') as caught:
            doctor.run(options)
    kept = caught.value.report.splitlines()
    result = doctor.run(options).report.splitlines()  # the same line continues
    assert kept[:-1] == result[:-1] and result[-1].startswith(kept[-1])
    assert (paths['output'] in kept[-1]) == (full == 'html')
    assert {path.name for path in tmp_path.iterdir()} == {'copy', 'data', 'out.html', 'out.json'}


def test_a_full_disk_leaves_no_part_of_a_copy(tmp_path, monkeypatch):
    folder = broken_datasets.Zoo({'train': 3}).write(tmp_path / 'data', 'files')
    written = []

    def write_bytes(path, content):
        written.append(path)
        if len(written) > 3:
            raise OSError(errno.ENOSPC, 'No space left on device')
        return len(content)

    monkeypatch.setattr(pathlib.Path, 'write_bytes', write_bytes)
    with pytest.raises(OutputError, match=r"copy' cannot be written: No space left") as caught:
        run(folder, fix=str(tmp_path / 'copy'))
    assert caught.value.report.startswith('Split train: 3 images')
    assert written and [path.name for path in tmp_path.iterdir()] == ['data']


def test_a_copy_keeps_what_is_evaluated_on_and_changes_no_good_file(tmp_path):
    made = broken_datasets.Zoo({'train': 3, 'val': 2})
    made.masks(broken_datasets.dataset_files.palette_png)  # builders take the indices
    made['train'].append(dataclasses.replace(made['val'][1], name='again'))
    made['train'][0].mask = broken_datasets.dataset_files.png(made['train'][0].ids[::2, ::2].copy())
    folder, copy = made.write(tmp_path / 'data', 'files'), tmp_path / 'copy'
    run(folder, fix=str(copy))
    log = json.loads((copy / 'repairs.json').read_text())
    assert [(entry['split'], entry['sample'], entry['rule']) for entry in log['left_out']] == [
        ('train', 'again.jpg', 'overlap')
    ]
    assert (copy / 'lists/train.txt').read_text().split() == ['train_0', 'train_1', 'train_2']
    assert (copy / 'lists/val.txt').read_text().split() == ['val_0', 'val_1']
    for name in ('images/train_0.jpg', 'images/val_1.jpg', 'masks/train_1.png', 'masks/val_1.png'):
        assert (copy / name).read_bytes() == (folder / name).read_bytes()
    with Image.open(copy / 'masks/train_0.png') as image:
        expected = np.kron(broken_datasets.scene(0)[1][::2, ::2], np.ones((2, 2), np.uint8))
        np.testing.assert_array_equal(np.asarray(image), expected)


def test_a_copy_takes_the_colors_of_palettes_if_their_meaning_is_given(tmp_path):
    made = broken_datasets.Zoo()
    made.relabel(lambda ids: np.where(ids == 255, 0, ids))
    palette = np.zeros((256, 3), np.uint8)
    palette[1:5] = broken_datasets.COLORS[::-1]  # class 3 has the index 1

    def of_colors(ids):
        image = Image.fromarray(4 - ids)
        image.putpalette(palette.ravel().tolist())
        return broken_datasets.encoded(image, 'PNG')

    made.masks(of_colors)
    made.files['colors.txt'] = broken_datasets.TABLE.encode()
    copy = tmp_path / 'copy'
    assert not serious(
        run(made.write(tmp_path / 'data', 'files'), **broken_datasets.COLOR_FIX, fix=str(copy)).remaining
    )
    assert json.loads((copy / 'repairs.json').read_text())['repaired'] == {'color_mask': len(made.every())}
    np.testing.assert_array_equal(np.asarray(Image.open(copy / 'masks/train_1.png')), made['train'][1].ids)
    classes = descriptor.load(str(copy / 'dataset.yaml'))
    assert classes.class_names == ('sky', 'ground', 'house', 'sign') and classes.ignore_label == 255


def test_a_copy_rotates_nothing_where_the_edges_do_not_show_it(tmp_path):
    made = broken_datasets.Zoo()
    noise = broken_datasets.dataset_files.with_exif(
        broken_datasets.dataset_files.jpeg(broken_datasets.dataset_files.pixels(*broken_datasets.SIZE)),
        broken_datasets.dataset_files.exif(3),
    )
    made['train'][1].image = noise
    result = run(made.write(tmp_path / 'data', 'files'), fix=str(tmp_path / 'copy'))
    assert serious(result.findings) - {'misplaced'} == serious(result.remaining) - {'misplaced'} == {'oriented'}
    assert (tmp_path / 'copy/images/train_1.jpg').read_bytes() == noise


@pytest.mark.parametrize(('kind', 'value'), [('WEBP', 6), ('TIFF', 6), ('WEBP', 1)])
def test_a_copy_keeps_the_orientation_of_images_of_other_formats(tmp_path, kind, value):
    made = broken_datasets.Zoo()
    sample = made['train'][1]
    shown = Image.open(io.BytesIO(sample.image))
    stored = shown.transpose(Image.Transpose.ROTATE_90) if value == 6 else shown
    exif = Image.Exif()
    exif[0x0112] = value
    sample.image, sample.suffix = broken_datasets.encoded(stored, kind, exif=exif), f'.{kind.lower()}'
    run(made.write(tmp_path / 'data', 'files'), fix=str(tmp_path / 'copy'))
    copy, mask = (Image.open(tmp_path / f'copy/{folder}/train_1.png') for folder in ('images', 'masks'))
    upright = ImageOps.exif_transpose(copy)
    assert upright.size == mask.size and np.array_equal(mask, sample.ids)
    assert np.abs(np.asarray(upright).astype(int) - np.asarray(shown)).mean() < 9


def test_a_copy_keeps_an_orientation_that_image_and_mask_share(tmp_path):
    """Also if ids of the mask change, so that the mask is encoded again."""
    made = broken_datasets.Zoo()
    made.relabel(lambda ids: np.where(ids == 255, 255, ids + 1).astype(np.uint8))
    sample, exif = made['train'][1], broken_datasets.dataset_files.exif(3)
    sample.image = broken_datasets.dataset_files.with_exif(sample.image, exif)
    mask = broken_datasets.dataset_files.png(sample.ids)
    sample.mask = broken_datasets.dataset_files.with_exif(mask, exif)
    result = run(made.write(tmp_path / 'data', 'files'), fix=str(tmp_path / 'copy'))
    assert serious(result.findings) == {'ids'} and not serious(result.remaining)
    for kind, name in (('images', 'train_1.jpg'), ('masks', 'train_1.png')):
        assert orientation.read((tmp_path / 'copy' / kind / name).read_bytes()) == 3


def test_names_in_records_stay_in_the_copy(tmp_path):
    made = broken_datasets.Zoo({'train': 3})
    for sample, name in zip(made['train'], ('ulm/a.jpg', '/../ulm\\.b', '..'), strict=True):
        sample.name = name
    run(made.write(tmp_path, 'records'), fix=str(tmp_path / 'copy'), output=str(tmp_path / 'found.json'))
    assert (tmp_path / 'copy/lists/train.txt').read_text().split() == ['ulm/a', 'ulm/b', 'image']
    assert (tmp_path / 'copy/images/ulm/b.jpg').exists() and (tmp_path / 'copy/masks/image.png').exists()


def test_the_report_says_what_was_repaired(tmp_path):
    folder = write(tmp_path, 'small mask and cut image')
    text = run(folder, fix=str(tmp_path / 'copy')).report
    assert '1 repaired by rule size' in text
    assert 'left out: train/train_1.jpg (train), corrupt: the image: it cannot be decoded' in text
    assert text.splitlines()[-1].startswith(f'No faults found in {tmp_path / "copy"} (0 errors, 0 warnings')
    assert 'fix resizes masks' in run(folder).report


def test_a_copy_of_described_records_keeps_what_is_true_of_it(tmp_path):
    """Also if the number of classes is given; the bands of rasters are in its images already."""
    made = broken_datasets.Zoo({'train': 3, 'val': 1})
    described = {
        'num_classes': broken_datasets.CLASSES, 'class_names': list('abcd'), 'things': [2, 3], 'depth_scale': 0.5,
        'bands': [4, 3, 1], 'value_range': [0, 3000],
    }  # fmt: skip
    made.files['dataset.json'] = json.dumps(described).encode()
    made['train'][1].ids[5:9] = 77
    folder, copy = made.write(tmp_path / 'data', 'records'), tmp_path / 'copy'
    report = run(folder, fix=str(copy)).report
    assert 'bands=(4, 3, 1) and value_range=(0, 3000) gave' in report
    classes = descriptor.load(str(copy / 'dataset.yaml'))
    assert (classes.class_names, classes.things, classes.depth_scale) == (tuple('abcd'), (2, 3), 0.5)
    assert len(segmentation_dataset.get_dataset(str(copy / 'dataset.yaml'), 'train', str(copy)).open_records()) == 3
    run(folder, fix=str(tmp_path / 'ignored'), num_classes=None, ignore_other_ids=True)  # the description has it
    assert json.loads((tmp_path / 'ignored/repairs.json').read_text())['repaired'] == {'ids': 1}
    others = doctor.examine(DoctorOptions(str(folder), num_classes=5)).descriptor
    assert (others.num_classes, others.class_names, others.things, others.depth_scale) == (5, None, None, 0.5)
    with open(copy / 'dataset.yaml', 'a') as file:
        file.write('bands: [1]\n')
    with pytest.raises(DataError, match='bands: .*is for TIFF files'):  # as in programs that read the copy
        run(copy)


def test_a_copy_is_a_data_set_with_a_description(tmp_path):
    """Programs read it without records, and so does the doctor."""
    copy = tmp_path / 'copy'
    assert (
        f'--dataset_dir={copy} '
        in run(write(tmp_path, 'masks in color'), **broken_datasets.COLOR_FIX, fix=str(copy)).report
    )
    described = str(copy / 'dataset.yaml')
    records = segmentation_dataset.get_dataset(described, 'train', str(copy)).open_records()
    assert len(records) == broken_datasets.SPLITS['train']
    mask = example.parse(records.read(1)).label_bytes
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(mask))), broken_datasets.scene(1)[1])
    for folder in (copy, described):
        result = doctor.run(DoctorOptions(str(folder), output=str(tmp_path / 'found.json')))
        assert not result.findings
        assert 'build_folder_data' not in result.report and f'--dataset_dir={folder} ' in result.report
    (copy / 'masks/train_1.png').unlink()  # a faulty one is read, too
    (copy / 'masks/train_2.png').write_bytes(broken_datasets._colored(broken_datasets.scene(2)[1]))
    (copy / 'images/train_3.jpg').write_bytes(b'')
    result = doctor.run(DoctorOptions(described, output=str(tmp_path / 'found.json')))
    assert serious(result.findings) == {'no_mask', 'color_mask', 'corrupt'}


@pytest.mark.parametrize(
    ('stems', 'masks', 'found'),
    [
        (['a', 'b'], ['a', 'c'], {'a': 'a'}),
        (['IMG_1', 'b'], ['img_1', 'b'], {'IMG_1': 'img_1', 'b': 'b'}),
        (['a', 'b', 'c'], ['a_mask', 'b_mask', 'x_mask'], {'a': 'a_mask', 'b': 'b_mask'}),
        (['1', '2'], ['10', '20'], {}),  # an ending begins with a sign
        (['a', 'b', 'c', 'd', 'e'], ['a_x', 'b_y'], {}),  # and is a common one
        (['a'], ['A', 'a.B', 'A.b'], {'a': 'A'}),
    ],
)
def test_partners_by_name(stems, masks, found):
    assert sources.partners(stems, masks) == found


def test_edges_show_where_a_mask_belongs():
    image, ids = broken_datasets.scene(3)
    gray = image.mean(axis=2).astype('float32')
    good, _ = edges.compare(gray, ids)
    assert good.shift == (0, 0) and good.here == good.best > good.turned
    moved, _ = edges.compare(gray, np.roll(ids, (3, -5), (0, 1)))
    assert moved.shift == (-3, 5) and moved.best == pytest.approx(good.best, abs=0.2) and moved.here < moved.best
    mirrored, _ = edges.compare(gray, ids[:, ::-1])
    assert mirrored.turn == 2 and mirrored.turned == pytest.approx(good.here, abs=0.1)
    assert edges.compare(gray * 0, ids) is None and edges.compare(gray, ids * 0) is None
    large = np.kron(ids, np.ones((4, 4), np.uint8))
    assert edges.factor_of(*large.shape) == 2
    assert edges.compare(np.kron(gray, np.ones((2, 2), np.float32)), np.roll(large, 8, 0))[0].shift == (-8, 0)
