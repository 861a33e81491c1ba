"""`deeplab rank`: from images to their order. Covers options/ranking.py and reporting/ranking_page.py."""

import contextlib
import csv
import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from deeplab import cli
from deeplab.errors import DataError, OptionError
from deeplab.inference import pipeline
from deeplab.inference.ranking_journal import Entry
from deeplab.inference.runners import CheckpointRunner
from deeplab.options import MergeOptions, PartOptions, RankOptions
from deeplab.programs import merge, rank
from deeplab.reporting import ranking_page
from tests.helpers import predictor_setup

pytestmark = pytest.mark.usefixtures('tiny_network')
NUMBER = 7


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A working folder with photos, of which 5 is a copy of 2."""
    monkeypatch.chdir(tmp_path)
    os.mkdir('photos')
    for i in range(NUMBER):
        picture = Image.fromarray(predictor_setup.pixels(20, 30, 2 if i == 5 else i))
        picture.save(os.path.join('photos', f'{i}.png'))
    return tmp_path


def options(training, *inputs, **changes):
    return RankOptions(inputs or ('photos',), (str(training),), **changes)


def document(folder='ranking'):
    with open(os.path.join(folder, 'ranking.json'), encoding='utf-8') as file:
        return json.load(file)


def test_list_table_document_and_page_agree(training, photos, monkeypatch):
    runs, run = [], CheckpointRunner.run
    monkeypatch.setattr(CheckpointRunner, 'run', lambda *given: runs.append(given[2]) or run(*given))
    result = rank.run(options(training, first=4))
    assert runs == [True] * (3 * NUMBER)  # each view once, with probabilities
    rows = document()['images']
    assert [row['image'] for row in rows] == [row['image'] for row in result.images] and len(rows) == NUMBER
    assert {row['image'] for row in rows} == {f'../photos/{i}.png' for i in range(NUMBER)}
    lines = (photos / 'ranking' / 'ranking.txt').read_text().splitlines()
    assert lines == [row['image'] for row in rows[:4]] and [row['chosen'] for row in rows] == [True] * 4 + [False] * 3
    with open(photos / 'ranking' / 'ranking.csv', encoding='utf-8', newline='') as file:
        table = list(csv.DictReader(file))
    assert [row['image'] for row in table] == [row['image'] for row in rows]
    assert [float(row['score']) for row in table] == [row['score'] for row in rows]
    page = (photos / 'ranking' / 'ranking.html').read_text()
    assert page.count('<figure>') == 4 and page.index('../photos/') > 0 and '<script' not in page
    assert result.status == 0 and 'ranking.txt' in result.report.splitlines()[-1]
    for row in rows:
        assert 0 <= row['spread'] <= row['entropy'] <= 1 and 0 <= row['margin'] <= 1 and len(row['classes']) == 3


def test_photos_on_the_page_are_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    Image.fromarray(predictor_setup.pixels(20, 30)).save(tmp_path / 'turned.jpg', exif=exif)
    assert ranking_page._photo(str(tmp_path / 'turned.jpg')).shape == (30, 20, 3)
    Image.fromarray(np.full((4, 5), 257 * 100, np.uint16)).save(tmp_path / 'deep.png')
    assert (ranking_page._photo(str(tmp_path / 'deep.png')) == 100).all()


def test_a_copy_is_last(training, photos):
    rows = rank.run(options(training)).images
    last = rows[-1]
    pair = {'../photos/2.png', '../photos/5.png'}
    assert {last['image'], last['similar_to']} == pair and not last['chosen']
    assert all('similar_to' not in row for row in rows[:-1])


def test_absolute_paths_and_a_relative_folder(training, photos):
    rows = rank.run(options(training)).images
    again = rank.run(options(training, str(photos / 'photos'), output_dir='again')).images
    assert again == rows
    assert (photos / 'again' / 'ranking.html').read_bytes() == (photos / 'ranking' / 'ranking.html').read_bytes()


def test_images_like_the_target_come_first(training, photos):
    os.mkdir('night')
    Image.fromarray(predictor_setup.pixels(20, 30, 4)).save('night/four.png')
    rows = rank.run(options(training, target=('night', 'photos/3.png'), first=2)).images
    assert {row['image'] for row in rows[:2]} == {'../photos/4.png', '../photos/3.png'}
    assert len(rows) == NUMBER  # those of the target are not ranked
    os.mkdir('empty')
    with pytest.raises(DataError, match='no image in .*empty'):
        rank.run(options(training, target=('empty',)))


def test_images_like_labeled_ones_come_last(training, photos):
    os.mkdir('labeled')
    Image.fromarray(predictor_setup.pixels(20, 30, 3)).save('labeled/three.png')
    rows = rank.run(options(training, labeled=('labeled',))).images
    similar = {row['image']: row['similar_to'] for row in rows if 'similar_to' in row}
    assert similar['../photos/3.png'] == 'an image with labels' and len(rows) == NUMBER
    with pytest.raises(OptionError, match=r'photos/1\.png.*labeled.*Pass it once'):
        rank.run(options(training, labeled=('photos/1.png',)))


def test_a_stopped_run_continues(training, photos, monkeypatch):
    whole = rank.run(options(training, output_dir='whole')).images
    predicted = []
    run = pipeline.run

    def first_ones(predictor, items, write, *more, **named):
        predicted.append([item.path for item in items])
        run(predictor, items[:3], write, *more, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, 'run', first_ones)
    with pytest.raises(KeyboardInterrupt):
        rank.run(options(training, output_dir='again'))
    assert os.listdir('again') == ['.rank_scores.jsonl']

    def the_rest(predictor, items, write, *more, **named):
        predicted.append([item.path for item in items])
        return run(predictor, items, write, *more, **named)

    monkeypatch.setattr(pipeline, 'run', the_rest)
    assert rank.run(options(training, output_dir='again')).images == whole
    assert predicted[1] == predicted[0][3:]
    rank.run(options(training, output_dir='again', measure='spread'))  # needs no prediction
    assert predicted[2] == []
    rank.run(options(training, output_dir='again', view_flipped=False))
    assert len(predicted[3]) == NUMBER


def test_parts_give_the_same(training, photos):
    rank.run(options(training, first=3, output_dir='whole'))
    for number in (1, 2):
        part = rank.run(options(training, first=3, output_dir='parts', part=PartOptions(f'{number}/2')))
        assert part.status == 0 and f'part-{number}-of-2' in part.report
    merge.run(MergeOptions('parts'))
    assert document('parts') == document('whole')
    assert sorted(os.listdir('parts')) == sorted(os.listdir('whole'))


def test_several_networks_disagree(training, photos, tmp_path_factory):
    other = predictor_setup.write_training(tmp_path_factory.mktemp('other'))
    alone = rank.run(options(training, 'photos/1.png', view_flipped=False, view_scales=(), output_dir='one')).images
    assert alone[0]['spread'] == 0
    both = RankOptions(
        ('photos/1.png',), (str(training), str(other)), view_flipped=False, view_scales=(), output_dir='two'
    )
    assert rank.run(both).images[0]['spread'] == pytest.approx(0, abs=1e-6)  # of equal weights
    flipped = rank.run(options(training, 'photos/1.png', view_scales=(), output_dir='three')).images
    assert flipped[0]['spread'] > 1e-4


def test_unreadable_files_and_videos_are_listed(training, photos):
    (photos / 'photos' / 'broken.png').write_bytes(b'no image')
    (photos / 'photos' / 'film.mp4').write_bytes(b'no film')
    result = rank.run(options(training))
    failed = {os.path.basename(each['path']): each['reason'] for each in document()['failed']}
    assert set(failed) == {'broken.png', 'film.mp4'} and 'frames' in failed['film.mp4']
    assert result.status == 1 and len(result.images) == NUMBER
    assert 'broken.png' in result.report


def test_nothing_to_rank(training, photos):
    with pytest.raises(DataError, match='There is no image to rank.*nowhere.*does not exist'):
        rank.run(options(training, 'nowhere'))
    (photos / 'broken.png').write_bytes(b'no image')
    with pytest.raises(DataError, match='No image could be predicted.*broken.png'):
        rank.run(options(training, 'broken.png'))


def test_a_network_of_one_class_is_refused(photos, monkeypatch):
    network = SimpleNamespace(decoder=None, class_names=('all',), source='logs/one')
    monkeypatch.setattr(rank, '_predictor', lambda options: contextlib.nullcontext(network))
    with pytest.raises(OptionError, match="'logs/one' predicts a single class.*at least two"):
        rank.run(options('logs/one'))


def test_rare_classes_weigh_more():
    common, rare = np.array([[0.3, 0.0]] * 3), np.array([[0.0, 0.2]] * 3)
    entries = [Entry(np.array([0.9, 0.1]), by_class, np.ones(1), np.zeros((17, 17))) for by_class in (common, rare)]
    assert list(rank.scores_of(entries, 'entropy', 0.0, entries)) == pytest.approx([0.3, 0.2])
    balanced = rank.scores_of(entries, 'entropy', 1.0, entries)  # weights 1 / 0.9 and 1 / 0.1, divided by 2
    assert list(balanced) == pytest.approx([0.3 / 1.8, 0.2 / 0.2])


def test_from_the_command_line(training, photos, capsys):
    assert (
        cli.run_program('rank', ['photos', f'--checkpoint_dir={training}', '--first=2', '--measure=margin']).status == 0
    )
    content = document()
    assert content['measure'] == 'margin' and content['chosen'] == 2
    others = [row['score'] for row in content['images'][2:] if 'similar_to' not in row]
    assert len(others) == 4 and others == sorted(others, reverse=True)


@pytest.mark.parametrize(
    ('flags', 'words'),
    [
        (['--measure=confidence'], ('measure', 'confidence', 'entropy, margin, spread')),
        (['--class_balance=2'], ('class_balance', '2', '0', '1')),
        (['--first=0'], ('first', '0')),
        (['--view_scales=0'], ('view_scales', '0')),
    ],
)
def test_bad_flags(flags, words, photos, capsys):
    assert cli.main(['rank', 'photos', '--checkpoint_dir=logs', *flags]) != 0
    message = capsys.readouterr().err
    assert all(word in message for word in words)
