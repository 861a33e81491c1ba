"""`deeplab doctor --folds`: masks that the networks of a cross-validation contradict."""

import json

import numpy as np
import pytest

from deeplab import cli
from deeplab.datasets import example
from deeplab.errors import DataError, OptionError
from deeplab.files import cross_validation
from deeplab.inference.predictor import Predictor
from deeplab.options import DoctorOptions
from deeplab.programs import doctor
from tests.helpers import dataset_files, predictor_setup

pytestmark = pytest.mark.usefixtures('tiny_network')
SIZE, FOLDS, EACH = (48, 64), 2, 12
SWAPPED = 3  # number of the image of fold2 whose mask has exchanged classes


@pytest.fixture(scope='module')
def folds(tmp_path_factory, tiny_network):
    """The folder of a cross-validation; the networks of its folds have equal weights."""
    folder = tmp_path_factory.mktemp('folds')
    made = []
    for number in range(1, FOLDS + 1):
        logdir = predictor_setup.write_training(folder / f'fold{number}')
        made.append(
            cross_validation.Fold(number, f'fold{number}', str(logdir), str(logdir / 'model.ckpt-7'), False, 0.5)
        )
    cross_validation.write(cross_validation.CrossValidation(str(folder), FOLDS, tuple(made)))
    return folder


@pytest.fixture(scope='module')
def records(folds, tmp_path_factory):
    """Records whose masks are what the networks predict, except for one with exchanged classes."""
    folder = tmp_path_factory.mktemp('records')
    with Predictor.from_checkpoint(folds / 'fold1') as predictor:
        for fold in range(1, FOLDS + 1):
            shard = []
            for number in range(EACH):
                image = predictor_setup.pixels(*SIZE, seed=100 * fold + number)
                mask = predictor(image).labels
                if (fold, number) == (2, SWAPPED):
                    one, other = np.bincount(mask.ravel(), minlength=4).argsort()[-2:]
                    table = np.arange(4, dtype=np.uint8)
                    table[[one, other]] = other, one
                    mask = table[mask]
                name = f'{fold}_{number}'
                shard.append(example.encode(dataset_files.png(image), 'png', name, *SIZE, 3, dataset_files.png(mask)))
            dataset_files.write_shard(folder / f'fold{fold}-00000-of-00001.tfrecord', shard)
    return folder


def options(records, folds, folder, **changes):
    changes.setdefault('num_classes', 4)
    return DoctorOptions(str(records), folds=str(folds), output=str(folder / 'findings.json'), **changes)


def test_the_exchanged_mask_is_first(records, folds, tmp_path):
    diagnosis = doctor.run(options(records, folds, tmp_path, html=str(tmp_path / 'page.html')))
    (finding,) = (each for each in diagnosis.findings if each.rule == 'contradicted_mask')
    assert finding.severity == 'warning' and finding.samples[0] == ('fold2', SWAPPED)
    assert f'2_{SWAPPED}' in finding.cases[0]
    listed = json.loads((tmp_path / 'findings.json').read_text())['mask_contradictions']
    assert len(listed) == FOLDS * EACH and (listed[0]['split'], listed[0]['number']) == ('fold2', SWAPPED)
    assert listed[0]['score'] > 2.5 and all(each['score'] < 1 for each in listed[1:])
    assert listed[0]['size'] == list(SIZE) and listed[0]['regions'][0]['rings']
    page = (tmp_path / 'page.html').read_text()
    section = page[page.index('<section id="masks"') :].partition('</section>')[0]
    assert section.count('<figure>') == FOLDS * EACH and '<path d="M' in section
    assert f'2_{SWAPPED}' in section.partition('</figure>')[0]


def test_without_folds_nothing_is_predicted(records, tmp_path, monkeypatch):
    monkeypatch.setattr(Predictor, 'from_checkpoint', None)
    assert doctor.run(DoctorOptions(str(records), num_classes=4, output=str(tmp_path))).mask_contradictions is None


def test_folds_of_other_records(records, folds, tmp_path):
    (tmp_path / 'train-00000-of-00001.tfrecord').write_bytes((records / 'fold1-00000-of-00001.tfrecord').read_bytes())
    with pytest.raises(OptionError, match='other records: these have no split fold1'):
        doctor.run(options(tmp_path, folds, tmp_path))


def test_folds_of_other_classes(records, folds, tmp_path):
    with pytest.raises(OptionError, match='networks of 4 classes, but the data set has 5'):
        doctor.run(options(records, folds, tmp_path, num_classes=5))


def test_no_finished_cross_validation(records, folds, tmp_path):
    with pytest.raises(DataError, match=r'is not the folder of a cross-validation.*cross_validate'):
        doctor.run(options(records, tmp_path, tmp_path))
    made = cross_validation.read(str(folds))
    cross_validation.write(cross_validation.CrossValidation(str(tmp_path), 3, made.folds))
    with pytest.raises(DataError, match='not finished: 2 of 3'):
        doctor.run(options(records, tmp_path, tmp_path))


def test_a_part_has_no_folds(records, capsys):
    assert cli.main(['doctor', str(records), '--folds=x', '--part=1/2']) != 0
    assert 'all images in one run' in capsys.readouterr().err
