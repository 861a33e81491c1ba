"""The doctor on drawn records of image classification, each with a fault.

Covers checks/class_rules.py.
"""

import io
import json
import shlex

import numpy as np
import pytest
from PIL import Image

from deeplab import cli, train
from deeplab.errors import OptionError, OutputError
from deeplab.options import DoctorOptions
from deeplab.programs import doctor
from tests.helpers import dataset_files, labeled_images
from tests.helpers.labeled_images import LabeledImages


def run(tmp_path, made, names=labeled_images.NAMES, **options):
    folder = made.write(tmp_path / 'data', names)
    return doctor.run(DoctorOptions(str(folder), output=str(tmp_path / 'findings.json'), **options))


def rules(result):
    return {finding.rule for finding in result.findings}


def only(result, rule):
    """The only finding, which has this rule."""
    (finding,) = result.findings
    assert finding.rule == rule
    return finding


@pytest.mark.parametrize('names', [labeled_images.NAMES, None])
def test_records_without_a_fault(tmp_path, names):
    result = run(tmp_path, LabeledImages(), names)
    assert rules(result) == set() and result.status == 0 and result.repair_line == ''
    assert ('Classes: 3, assumed from the classes of the images' in result.report) == (names is None)
    assert ('"has_masks": false' in result.report) == (names is None)
    rows = json.loads((tmp_path / 'findings.json').read_text())['classes']
    assert [row['images'] for row in rows] == [{'train': 22, 'val': 10}] * 3
    assert [row['label_weight'] for row in rows] == [1.0] * 3
    assert 'mask' not in result.report.replace('has_masks', '')


def test_without_a_split_to_train_on_there_is_no_fraction(tmp_path):
    path = tmp_path / 'page.html'
    for split, count in (('train', 1), ('trian', 0)):
        report = run(tmp_path, LabeledImages(), train_split=split, html=str(path)).report
        page = path.read_text()
        about = ('fraction and weight in split train', 'share  weight', 'Fraction of the images', 'Weight</th>')
        assert [(report + page).count(each) for each in about] == [2 * count, count, count, count]
        assert page.count('class="bar"') == 3 * count and page.count('<td') == (4 + 3 * count) * 3
        assert 'all folds' not in report + page and 'id  name' in report


def test_suggested_command_lines(tmp_path):
    train, evaluation = run(tmp_path, LabeledImages()).suggestion.lines[1:]
    options = cli.options_of('train', shlex.split(train)[2:])
    assert options.model.task == 'classification' and options.model.crop_size == (224, 224)
    assert cli.options_of('eval', shlex.split(evaluation)[2:]).dataset.split == 'val'
    assert 'crop' not in train + evaluation and 'output_stride' not in train and 'several' not in train
    made = LabeledImages()
    made.samples['train'][0][1] = np.array([0, 2])
    assert '--several_labels=true' in run(tmp_path, made).suggestion.lines[1]


def _changed(split='train', number=4, image=None, class_ids=None):
    """A change of one sample."""

    def change(samples):
        sample = samples[split][number]
        sample[:] = [sample[0] if image is None else image, sample[1] if class_ids is None else class_ids]

    return change


def _brighter(samples):
    """The image of val 3 is train 1, brighter and smaller, in another class."""
    with Image.open(io.BytesIO(samples['train'][1][0])) as image:
        pixels = np.asarray(image.resize((50, 38)))
    samples['val'][3][0] = dataset_files.png((pixels * 0.8 + 30).astype(np.uint8))


def _copied(samples, class_id):
    samples['train'].append([samples['train'][1][0], class_id])


def _without(samples, split, class_id, left=0):
    """All but some images of a class are removed from a split."""
    own = [sample for sample in samples[split] if sample[1] == class_id]
    samples[split] = [sample for sample in samples[split] if sample[1] != class_id] + own[:left]


def _unlabeled(samples):
    samples['train'][4][1] = None


IMAGE = dataset_files.png(labeled_images.drawn(0, 7))
FAULTS = {
    'broken image': (_changed(image=IMAGE[:-300]), {'corrupt': 'train_4'}),
    'other format': (_changed(image=b'GIF'), {'corrupt': 'train_4'}),
    'id too large': (_changed(class_ids=3), {'class_ids': "'train_4' (train-00000-of-00001.tfrecord, record 4): 3"}),
    'negative id': (_changed(class_ids=-1), {'class_ids': 'record 4): -1'}),
    'two ids, one wrong': (_changed(class_ids=np.array([0, 9])), {'class_ids': 'record 4): 0, 9'}),
    'no class': (_unlabeled, {'class_ids': 'record 4): no class'}),
    'same image in val': (
        lambda samples: samples['val'].append(samples['train'][2]),
        {'overlap': "'val_30' (val-00000-of-00001.tfrecord, record 30) is a copy of 'train_2'"},
    ),
    'similar image in val, in another class': (
        _brighter,
        {'similar': 'looks like', 'contradictory': "record 3), 'disk' (id 0), looks like 'train_1'"},
    ),
    'a copy in the same class': (lambda samples: _copied(samples, 1), {'repeated': 'is a copy of'}),
    'a copy in another class': (
        lambda samples: _copied(samples, 2),
        {'repeated': 'is a copy of', 'contradictory': "record 66), 'frame' (id 2), is a copy of 'train_1'"},
    ),
    'no image of a class in val': (lambda samples: _without(samples, 'val', 1), {'absent_classes': None}),
    'no image of a class in train': (lambda samples: _without(samples, 'train', 1), {'only_evaluated': None}),
    'few images of a class': (lambda samples: _without(samples, 'train', 1, left=4), {'few_images': None}),
    'no split to evaluate on': (lambda samples: samples.pop('val'), {'no_evaluation': None}),
}
OTHER_RULES = {'class_names', 'contradicted'}  # of further tests


@pytest.mark.parametrize('name', FAULTS)
def test_each_fault(tmp_path, name):
    change, wanted = FAULTS[name]
    made = LabeledImages()
    change(made.samples)
    result = run(tmp_path, made)
    assert rules(result) == set(wanted)
    for finding in result.findings:
        both = finding.rule == 'contradictory'
        assert finding.count == len(finding.cases) == (1 + both if wanted[finding.rule] else 0)
        assert (wanted[finding.rule] or '') in ''.join(finding.cases)
        assert finding.fix and not finding.repair
        assert 'mask' not in finding.fix and 'build_folder_data' not in finding.fix
        assert finding.rule != 'no_evaluation' or 'build_classification_data with val_fraction=0.1' in finding.fix


def test_texts_about_classes(tmp_path):
    made = LabeledImages()
    _without(made.samples, 'train', 1, left=4)
    _without(made.samples, 'val', 2)
    texts = [finding.what for finding in run(tmp_path, made, (*labeled_images.NAMES, 'cross')).findings]
    assert texts == [
        "Classes without an image in split 'train': 'cross' (id 3).",
        "Classes without an image in split 'val': 'frame' (id 2).",
        "Classes with fewer than 20 images in split 'train': 'bar' (id 1) 4.",
    ]
    assert '\n   1  bar        4   10   8.33%    5.50\n' in run(tmp_path, made).report


def test_labels_txt_that_contradicts_the_description(tmp_path):
    folder, output = LabeledImages().write(tmp_path / 'data', None), str(tmp_path / 'findings.json')
    (folder / 'labels.txt').write_text('0:disk\n1:bar\n2:frame\n3:cross\n')
    result = doctor.run(DoctorOptions(str(folder), num_classes=3, output=output))
    assert only(result, 'class_names').what.endswith("labels.txt' has 4 classes, the data set 3.")
    assert rules(doctor.run(DoctorOptions(str(folder), output=output))) == {'absent_classes'}
    content = {'num_classes': 3, 'class_names': labeled_images.NAMES, 'has_masks': False}
    (folder / 'dataset.json').write_text(json.dumps(content))
    for text, said in (
        ('0:disk\n1:bar\n2:frame\n3:cross\n', "labels.txt' has 4 classes, the data set 3."),
        ('0:disk\n1:frame\n2:bar\n', "labels.txt' calls class 1 'frame', not 'bar' as the data set."),
        ('1:disk\n2:bar\n3:frame\n', 'Number the classes from 0.'),
    ):
        (folder / 'labels.txt').write_text(text)
        assert only(doctor.run(DoctorOptions(str(folder), output=output)), 'class_names').what.endswith(said)


def test_more_classes_than_masks_can_have(tmp_path):
    made = LabeledImages()
    made.samples['val'][0][1] = 700
    result = run(tmp_path, made, None)
    assert rules(result) == {'only_evaluated', 'absent_classes'} and 'Classes: 701' in result.report
    content = {'num_classes': 1000, 'has_masks': False}
    (tmp_path / 'other.json').write_text(json.dumps(content))
    page = tmp_path / 'page.html'
    run(tmp_path, made, None, dataset=str(tmp_path / 'other.json'), html=str(page))
    assert page.read_text().count('<tr>') == 1001


def test_a_repaired_copy_is_refused(tmp_path):
    with pytest.raises(OutputError, match='fix.*, but not classes') as caught:
        run(tmp_path, LabeledImages(), fix=str(tmp_path / 'copy'))
    assert '\n' not in str(caught.value) and not (tmp_path / 'copy').exists()


def test_the_page_has_images_with_their_classes(tmp_path):
    made = LabeledImages()
    made.samples['train'][4][1] = 3
    page = tmp_path / 'page.html'
    run(tmp_path, made, html=str(page))
    text = page.read_text()
    assert 'Mask of' not in text and 'their masks' not in text and '<ul class="pairs is-single">' in text
    assert '(train): &#x27;disk&#x27; (id 0)</figcaption>' in text and '(train): id 3</figcaption>' in text
    assert '<th scope="col">Images of val</th>' in text and text.count('<tr>') == 4


def test_contradictions_of_a_classifier(tmp_path, monkeypatch):
    result = run(tmp_path, LabeledImages())
    first, second, third, *_ = result.data.splits['val'].images
    predictions = [
        ('val', first, np.float32([0.08, 0.92, 0])),
        ('val', second, np.float32([0.89, 0.11, 0])),
        ('val', third, np.float32([0.99, 0, 0.01])),
    ]
    monkeypatch.setattr(doctor, '_predictions', lambda data, checkpoint: iter(predictions))
    result = run(tmp_path, LabeledImages(), checkpoint_dir='logs')
    finding = only(result, 'contradicted')
    assert finding.samples == (('val', 2), ('val', 0))
    assert finding.cases[0] == (
        "'val_2' (val-00000-of-00001.tfrecord, record 2), 'frame' (id 2): 'disk' (id 0) with 99.0%"
    )
    entries = json.loads((tmp_path / 'findings.json').read_text())['contradictions']
    assert [entry['probability'] for entry in entries] == [0.99, 0.92]
    assert (entries[0]['split'], entries[0]['class_ids'], entries[0]['predicted']) == ('val', [2], 0)


@pytest.mark.slow
def test_a_trained_classifier(tmp_path):
    """Images that are red, green or blue: the two with a wrong class are named, by the names of the data set."""
    made = LabeledImages()
    for samples in made.samples.values():
        for number, sample in enumerate(samples):
            ground = (
                np.random.default_rng(number + 100 * len(samples))
                .integers(0, 90, (*labeled_images.SIZE, 3))
                .astype(np.uint8)
            )
            ground[..., sample[1]] += 140
            sample[0] = dataset_files.png(ground)
    folder, logs = made.write(tmp_path / 'clean', ('red', 'green', 'blue')), str(tmp_path / 'logs')
    flags = {'task': 'classification', 'model_variant': 'lenet', 'train_batch_size': 16, 'base_learning_rate': 0.001}
    flags |= {
        'dataset_dir': folder,
        'train_logdir': logs,
        'training_number_of_steps': 60,
        'dataset': folder / 'dataset.json',
    }
    train.run(cli.options_of('train', [f'--{name}={value}' for name, value in flags.items()]))
    made.samples['train'][6][1], made.samples['val'][4][1] = 1, 2  # red as green, green as blue
    words = [
        f'--output={tmp_path}',
        f'--checkpoint_dir={logs}',
        str(made.write(tmp_path / 'data', ('red', 'green', 'blue'))),
    ]
    result = doctor.run(cli.options_of('doctor', words))
    texts = {case.partition('), ')[2] for case in only(result, 'contradicted').cases}
    assert {text.partition(' with ')[0] for text in texts} == {
        "'green' (id 1): 'red' (id 0)",
        "'blue' (id 2): 'green' (id 1)",
    }
    with pytest.raises(OptionError, match='has 3 classes, but the data set has 4'):
        run(tmp_path, made, checkpoint_dir=logs, num_classes=4)


def test_only_images_with_classes_are_compared_with_a_classifier(tmp_path):
    dataset_files.write_split(tmp_path, 'train', [[dataset_files.record(seed) for seed in range(2)]])
    with pytest.raises(OptionError, match='checkpoint_dir.* Omit it'):
        doctor.run(DoctorOptions(str(tmp_path), checkpoint_dir='logs', output=str(tmp_path / 'findings.json')))
