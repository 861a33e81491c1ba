"""Jobs with --part, joined by `deeplab merge`, against one run.

Covers files/part_folders.py and datasets/merged_records.py.
"""

import dataclasses
import json
import os
import pathlib
import shutil

import pytest
import tensorflow as tf
from PIL import Image

from deeplab import cli
from deeplab import eval as eval_program
from deeplab import vis as vis_program
from deeplab.datasets import build_classification_data, build_folder_data, descriptor, segmentation_dataset
from deeplab.errors import DataError, OptionError
from deeplab.options import (
    BuildClassificationOptions,
    BuildFolderOptions,
    DatasetOptions,
    DoctorOptions,
    EvalOptions,
    MergeOptions,
    PartOptions,
    PredictOptions,
    VisOptions,
    WaitOptions,
)
from deeplab.programs import doctor, merge, predict
from tests.helpers import dataset_files, panoptic_setup, predictor_setup
from tests.helpers import evaluation_setup as setup

COUNT = 3


def with_part(options, number, count=COUNT, **changes):
    return dataclasses.replace(options, part=PartOptions(f'{number}/{count}'), **changes)


def files_of(folder):
    """Path, and content as bytes, of all files in a folder."""
    folder = pathlib.Path(folder)
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob('*')) if path.is_file()}


# --- eval ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def evaluation(tmp_path, monkeypatch):
    """Options of an evaluation that takes two images at a time."""
    setup.use_small_network(monkeypatch)
    dataset = setup.write_data(tmp_path / 'records')
    setup.write_checkpoint(tmp_path, weight=0.7)
    wait = WaitOptions(interval_secs=0, max_rounds=None, timeout_secs=0)
    return EvalOptions(
        setup.MODEL, dataset, str(tmp_path), str(tmp_path / 'parts'), wait=wait, batch_size=2,
        metrics=('per_image', 'image_iou'),
    )  # fmt: skip


def events(folder):
    """Values by tag of the event files."""
    paths = sorted(pathlib.Path(folder).glob('events.*'))
    return {
        value.tag: value.simple_value
        for path in paths
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }


def test_eval(evaluation, tmp_path):
    for number in (3, 1, 2):
        result = eval_program.run(with_part(evaluation, number))
        assert f'Part {number}/3 is in' in result.report and 'deeplab merge' in result.report
    merged = merge.run(MergeOptions(evaluation.eval_logdir))
    whole = dataclasses.replace(evaluation, eval_logdir=str(tmp_path / 'whole'), wait=WaitOptions(0, 1, 0))
    one = eval_program.run(whole)
    here, there = (
        json.loads((tmp_path / name / 'metrics-10.json').read_text()) | {'seconds': 0} for name in ('parts', 'whole')
    )
    assert here == there
    assert (tmp_path / 'parts/per_image-10.csv').read_bytes() == (tmp_path / 'whole/per_image-10.csv').read_bytes()
    assert events(tmp_path / 'parts') == events(tmp_path / 'whole')
    assert merged.report.startswith('3 parts joined.\n')
    table = one.report.partition('5 images')[0]
    assert table in merged.report
    assert not list((tmp_path / 'parts').glob('part-*'))


def test_eval_of_a_network_of_other_tasks(tmp_path, monkeypatch):
    """Panoptic quality and average precision."""
    panoptic_setup.use_small_network(monkeypatch)
    dataset = panoptic_setup.write_data(tmp_path / 'records')
    panoptic_setup.write_training(tmp_path, dataset)
    options = EvalOptions(panoptic_setup.MODEL, dataset, str(tmp_path), str(tmp_path / 'parts'), wait=WaitOptions(0, 1))
    for number in (1, 2, 3):
        eval_program.run(with_part(options, number))
    merge.run(MergeOptions(options.eval_logdir))
    (one,) = eval_program.run(dataclasses.replace(options, eval_logdir=str(tmp_path / 'whole'))).rounds
    here, there = (json.loads(next((tmp_path / name).glob('*.json')).read_text()) for name in ('parts', 'whole'))
    assert here | {'seconds': 0} == there | {'seconds': 0}
    assert 0 < one.further['panoptic']['pq'] < 1 and 0 < one.further['panoptic']['ap'] < 1


def test_eval_of_more_classes_than_masks_can_hold(evaluation, monkeypatch):
    """Such as the 1000 of an image classifier."""
    for number in range(1, COUNT + 1):
        eval_program.run(with_part(evaluation, number))

    def refuse(subject, classes):
        raise DataError(f'{subject}: {classes} classes are too many for masks')

    monkeypatch.setattr(descriptor, 'require_classes', refuse)
    assert merge.run(MergeOptions(evaluation.eval_logdir)).report.startswith(f'{COUNT} parts joined')


def test_parts_that_are_missing(evaluation):
    folder = pathlib.Path(evaluation.eval_logdir)
    with pytest.raises(DataError, match='has no parts, such as part-1-of-4'):
        merge.run(MergeOptions(str(folder)))
    for number in (1, 3):
        eval_program.run(with_part(evaluation, number))
    with pytest.raises(DataError, match='lacks part 2/3'):
        merge.run(MergeOptions(str(folder)))
    shutil.copytree(folder / 'part-1-of-3', folder / 'part-2-of-4')
    with pytest.raises(DataError, match='parts of 3 and 4 parts'):
        merge.run(MergeOptions(str(folder)))
    (folder / 'part-2-of-4').rename(folder / 'part-01-of-3')
    with pytest.raises(DataError, match='part 1/3 twice'):
        merge.run(MergeOptions(str(folder)))
    (folder / 'part-01-of-3/part.json').unlink()
    with pytest.raises(DataError, match='part-01-of-3.* is not complete: run part 1/3 again'):
        merge.run(MergeOptions(str(folder)))
    assert not list(folder.glob('metrics*')) and len(list(folder.glob('part-*'))) == 3


def test_what_eval_refuses(evaluation):
    with pytest.raises(DataError, match='more parts than items'):
        eval_program.run(with_part(evaluation, 1, 6))
    with pytest.raises(OptionError, match='one checkpoint at a time'):
        with_part(evaluation, 1, 2, all_checkpoints=True)
    line = ['--checkpoint_dir=logs', '--eval_logdir=eval', '--dataset_dir=records']
    for text in ('0/4', '5/4', '4'):
        with pytest.raises(OptionError, match=r'--part.* is not allowed: pass the number of the part, from 1'):
            with_flags(line, text)
    assert cli.options_of('eval', [*line, '--part=2/4']).part.part == '2/4'


def with_flags(line, text):
    from deeplab import wording
    from deeplab.cli.program import find_program, names_in_messages

    with wording.flag_names(names_in_messages(find_program('eval'))):
        return cli.options_of('eval', [*line, f'--part={text}'])


def test_parts_of_two_programs(evaluation):
    eval_program.run(with_part(evaluation, 1, 2))
    vis = VisOptions(setup.MODEL, evaluation.dataset, evaluation.checkpoint_dir, evaluation.eval_logdir)
    with pytest.raises(DataError, match=r"part-1-of-2' is a part of 'eval'. Join it first"):
        vis_program.run(with_part(vis, 1, 2))


def test_parts_of_two_commands(evaluation):
    eval_program.run(with_part(evaluation, 1, 2))
    eval_program.run(with_part(evaluation, 2, 2, metrics=()))
    with pytest.raises(DataError, match='Parts 1/2 and 2/2 of .* do not belong together: flags.metrics'):
        merge.run(MergeOptions(evaluation.eval_logdir))


# --- Builders --------------------------------------------------------------------------------------------------------


def built(folder, output_dir, part=None, **changes):
    options = BuildFolderOptions(
        image_folder=f'{folder}/images', mask_folder=f'{folder}/masks', output_dir=str(output_dir), val_fraction=0.3,
        num_shards=5, **{'num_classes': 4, **changes}, part=PartOptions(part),
    )  # fmt: skip
    return build_folder_data.run(options)


@pytest.fixture
def images(tmp_path):
    """A folder of 11 images and their masks, in three groups."""
    for name in ('images', 'masks'):
        (tmp_path / name).mkdir()
    for seed in range(11):
        (tmp_path / f'images/{seed}.png').write_bytes(dataset_files.png(dataset_files.pixels(6 + seed, 8, seed)))
        mask = dataset_files.png(dataset_files.ids(6 + seed, 8, classes=4, seed=seed))
        (tmp_path / f'masks/{seed}.png').write_bytes(mask)
    return tmp_path


def test_builders(images):
    built(images, images / 'whole')
    for number in (2, 3, 1):
        result = built(images, images / 'parts', f'{number}/3')
    with pytest.raises(DataError, match=r'part-1-of-3 are parts of a build: join them with `deeplab merge .*parts`'):
        segmentation_dataset.DataSource(DatasetOptions('train', str(images / 'parts'), 'camvid')).split()
    assert sum(facts['shards'] for facts in result['splits'].values()) == 2 and 'deeplab merge' in result['note']
    report = merge.run(MergeOptions(str(images / 'parts'))).report
    here, there = files_of(images / 'parts'), files_of(images / 'whole')
    assert here.keys() == there.keys()
    for name in ('.train.shards.jsonl', '.val.shards.jsonl'):
        lines = [
            [json.loads(line) | {'modified': 0, 'file': ''} for line in each[name].splitlines()]
            for each in (here, there)
        ]
        assert lines[0] == lines[1]
    for name in here:
        if not name.endswith(('.jsonl', '.npz')):
            assert here[name].replace(b'parts', b'whole') == there[name], name
    assert 'train: 8 images in 5 shards' in report
    before = {path: path.stat().st_mtime_ns for path in (images / 'parts').glob('*.tfrecord')}
    built(images, images / 'parts')  # all shards are known
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_what_builders_refuse(images):
    with pytest.raises(DataError, match=r'no split has more than 5\. Set .*num_shards=6'):
        built(images, images / 'out', '1/6')
    with pytest.raises(DataError, match=r'more parts than items \(8\)'):
        built(images, images / 'out', '1/9')
    with pytest.raises(OptionError, match='needs the number of classes'):
        built(images, images / 'out', '1/2', num_classes=None)
    assert not (images / 'out').exists()


def test_records_of_two_commands_or_changed(images):
    out = images / 'out'
    built(images, out, '1/2')
    built(images, out, '2/2', seed=1)
    with pytest.raises(DataError, match='Parts 1/2 and 2/2 of .*out.* do not belong together: seed is 0 and 1'):
        merge.run(MergeOptions(str(out)))
    built(images, out, '2/2')
    shard = out / 'part-2-of-2/train-00004-of-00005.tfrecord'
    shard.rename(out / 'elsewhere')
    with pytest.raises(DataError, match="shard 'train-00004-of-00005.tfrecord' is missing"):
        merge.run(MergeOptions(str(out)))
    (out / 'elsewhere').rename(shard)
    merge.run(MergeOptions(str(out)))  # continues
    built(images, images / 'whole')
    assert (out / 'dataset.yaml').read_text().replace('out', 'whole') == (images / 'whole/dataset.yaml').read_text()


def test_classes_of_images(tmp_path):
    for seed in range(9):
        path = tmp_path / f'images/{"abc"[seed % 3]}/{seed}.png'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dataset_files.png(dataset_files.pixels(6, 8, seed)))

    def build(folder, part=None):
        options = BuildClassificationOptions(
            image_folder=f'{tmp_path}/images', output_dir=f'{tmp_path}/{folder}', num_shards=2, part=PartOptions(part)
        )
        return build_classification_data.run(options)

    build('whole')
    for number in (1, 2):
        build('parts', f'{number}/2')
    merge.run(MergeOptions(f'{tmp_path}/parts'))
    here, there = files_of(tmp_path / 'parts'), files_of(tmp_path / 'whole')
    assert here.keys() == there.keys() and 'labels.txt' in here
    for name in here:
        if name.endswith(('.tfrecord', '.txt', '.yaml')):
            assert here[name].replace(b'parts', b'whole') == there[name], name


# --- predict and vis -------------------------------------------------------------------------------------------------


def summary_of(folder):
    """predictions.json without the time."""
    content = json.loads((folder / 'predictions.json').read_text())
    return content | {'seconds': 0, 'images_per_second': 0}


def same_files(here, there, *left_out):
    """Compares the files in two folders, except hidden ones and those that are named."""
    here, there = (
        {
            name: content
            for name, content in files_of(each).items()
            if name[0] != '.' and not name.startswith(('record_check', *left_out))
        }
        for each in (here, there)
    )
    assert here.keys() == there.keys() and len(here) > 5
    assert [name for name in here if here[name] != there[name]] == []


@pytest.fixture
def photos(tmp_path, tiny_network):
    """A training, and a folder of photos of which two have one name and one is damaged."""
    predictor_setup.write_training(tmp_path / 'train')
    (tmp_path / 'photos').mkdir()
    for i, name in enumerate(('a.png', 'a.bmp', 'b.png', 'c.png', 'd.png', 'e.png')):
        Image.fromarray(predictor_setup.pixels(20, 30, i)).save(tmp_path / 'photos' / name)
    (tmp_path / 'photos/d.png').write_bytes(b'nothing')
    return tmp_path


def test_predict(photos):
    def predicted(folder, part=None, **changes):
        options = PredictOptions(
            (str(photos / 'photos'), 'lost.png'), str(photos / folder), str(photos / 'train'), part=PartOptions(part),
            **changes,
        )  # fmt: skip
        return predict.run(options)

    one = predicted('whole')
    parts = [predicted('parts', f'{number}/3') for number in (3, 2, 1)]
    assert sum(part.images for part in parts) == one.images == 5
    folder = photos / 'parts'
    mask = folder / 'part-2-of-3/mask/b.png'
    mask.rename(photos / 'b.png')
    with pytest.raises(DataError, match=r"mask/b.png' is missing. Run part 2/3 again"):
        merge.run(MergeOptions(str(folder)))
    (photos / 'b.png').rename(mask)
    assert [part.status for part in parts] == [0, 0, 0]
    merged = merge.run(MergeOptions(str(folder)))
    assert merged.status == one.status == 1 and '5 images, 2 inputs could not be predicted' in merged.report
    assert summary_of(folder) == summary_of(photos / 'whole')
    same_files(folder, photos / 'whole', 'predictions.json')
    predicted('parts', '1/1')  # the files are predict's own, and may be replaced
    merge.run(MergeOptions(str(folder)))
    same_files(folder, photos / 'whole', 'predictions.json')


def test_a_merge_that_was_interrupted_continues(photos, monkeypatch):
    line = (str(photos / 'photos'),), str(photos / 'parts'), str(photos / 'train')
    for number in (1, 2):
        predict.run(PredictOptions(*line, part=PartOptions(f'{number}/2')))
    replace, moved = os.replace, []

    def interrupted(source, target):
        if '/mask/' in str(source):
            if len(moved) == 2:
                raise KeyboardInterrupt
            moved.append(target)
        replace(source, target)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr('deeplab.files.part_folders.os.replace', interrupted)
        merge.run(MergeOptions(line[1]))
    assert len(moved) == 2
    merge.run(MergeOptions(line[1]))
    predict.run(PredictOptions(line[0], str(photos / 'whole'), line[2]))
    same_files(photos / 'parts', photos / 'whole', 'predictions.json')
    assert summary_of(photos / 'parts')['images'] == summary_of(photos / 'whole')['images']


def test_parts_of_other_images(photos):
    line = (str(photos / 'photos'),), str(photos / 'parts'), str(photos / 'train')
    predict.run(PredictOptions(*line, part=PartOptions('1/2')))
    (photos / 'photos/e.png').rename(photos / 'photos/f.png')
    predict.run(PredictOptions(*line, part=PartOptions('2/2')))
    with pytest.raises(DataError, match='Parts 1/2 and 2/2 of .* do not belong together: inputs is'):
        merge.run(MergeOptions(line[1]))
    with pytest.raises(DataError, match=r'more parts than items \(6\)'):
        predict.run(PredictOptions(*line, part=PartOptions('1/7')))


def test_vis(evaluation, tmp_path):
    """Names of images that are taken get numbers as in one run."""
    dataset = setup.write_data(tmp_path / 'named', names=['x', 'x', 'a/b', 'x', 'y'])
    options = VisOptions(
        setup.MODEL, dataset, str(tmp_path), '', wait=evaluation.wait, also_save_raw_predictions=True,
        save=('overlay', 'errors'),
    )  # fmt: skip
    at_once = dataclasses.replace(options, vis_logdir=str(tmp_path / 'whole'), wait=WaitOptions(0, 1, 0))
    vis_program.run(at_once)
    in_parts = dataclasses.replace(options, vis_logdir=str(tmp_path / 'parts'))
    vis_program.run(dataclasses.replace(at_once, vis_logdir=str(tmp_path / 'parts'), save=('contours',)))  # earlier
    for number in (2, 1, 3):
        result = vis_program.run(with_part(in_parts, number))
    assert 'deeplab merge' in result.report
    assert '5 images' in merge.run(MergeOptions(in_parts.vis_logdir)).report
    same_files(tmp_path / 'parts', tmp_path / 'whole')
    assert {'x.png', 'x_000001.png', 'x_000003.png'} <= set(os.listdir(tmp_path / 'parts/raw_segmentation_results'))
    with pytest.raises(OptionError, match='are made of all images'):
        with_part(in_parts, 1, save=('legend',))


def test_documents_about_all_images(tmp_path, monkeypatch):
    """The files of a panoptic network, with one JSON file about all images."""
    panoptic_setup.use_small_network(monkeypatch)
    dataset = panoptic_setup.write_data(tmp_path / 'records')
    panoptic_setup.write_training(tmp_path, dataset)
    options = VisOptions(
        panoptic_setup.MODEL, dataset, str(tmp_path), str(tmp_path / 'parts'), wait=WaitOptions(0, 1, 0)
    )
    for number in (1, 2, 3):
        vis_program.run(with_part(options, number))
    merge.run(MergeOptions(options.vis_logdir))
    vis_program.run(dataclasses.replace(options, vis_logdir=str(tmp_path / 'whole')))
    same_files(tmp_path / 'parts', tmp_path / 'whole')
    assert len(json.loads((tmp_path / 'parts/panoptic.json').read_text())['annotations']) == 3


# --- doctor ----------------------------------------------------------------------------------------------------------


def test_doctor(images, monkeypatch):
    """Damaged, equal and unmatched files."""
    monkeypatch.setattr('deeplab.checks.suggestion.memory.free', lambda: 1 << 33)
    (images / 'images/lone.png').write_bytes(dataset_files.png(dataset_files.pixels(6, 8, 20)))
    (images / 'images/7.png').write_bytes((images / 'images/2.png').read_bytes())
    (images / 'masks/9.png').write_bytes(b'nothing')

    def diagnosed(data, folder, part=None):
        (images / folder).mkdir(exist_ok=True)
        output = str(images / folder / 'found.json')
        return doctor.run(DoctorOptions(str(images / data), num_classes=4, output=output, part=PartOptions(part)))

    one = diagnosed('.', 'whole')
    for number in (2, 3, 1):
        assert 'deeplab merge' in diagnosed('.', 'parts', f'{number}/3').report
    merged = merge.run(MergeOptions(str(images / 'parts')))
    contents = [json.loads((images / name / 'found.json').read_text()) for name in ('parts', 'whole')]
    assert contents[0] == contents[1]
    rules = {finding['rule'] for finding in contents[0]['findings']}
    assert {'corrupt', 'repeated'} <= rules, rules
    assert merged.status == one.status == 1
    assert merged.report.replace('/parts/', '/whole/').partition('\n')[2] == one.report
    assert os.listdir(images / 'parts') == ['found.json']


def test_what_doctor_refuses(images):
    with pytest.raises(OptionError, match='it needs all images in one run'):
        DoctorOptions(str(images), fix='copy', part=PartOptions('1/2'))
    with pytest.raises(DataError, match='more parts than items'):
        doctor.run(DoctorOptions(str(images), output=str(images / 'a.json'), part=PartOptions('1/20')))
