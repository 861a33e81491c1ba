"""The HTML page, its pictures, and the files of a run that it shows.

Covers reporting/page.py, reporting/pictures.py and reporting/run_files.py.
"""

import base64
import hashlib
import html
import io
import json
import re
import sys
import zlib

import numpy as np
import pytest
from PIL import Image

from deeplab.errors import OptionError
from deeplab.reporting import page, pictures, run_files

HOSTILE = '</script><script>alert(1)</script><!-- & "\u2028\ud800'
CONTENT = {'title': f'Report of {HOSTILE}', 'classes': [{'name': HOSTILE}]}


def rendered(library='window.vegaEmbed = 1;\n'):
    return page.render(CONTENT, [{'photo': HOSTILE}, {'photo': 'b'}], library)


def scripts(text):
    """The script elements as a browser finds them: (attributes, content)."""
    return re.findall(r'<script([^>]*)>(.*?)</script', text, re.DOTALL | re.IGNORECASE)


def test_names_with_markup_do_not_leave_their_element():
    found = scripts(rendered())
    kinds = [attributes for attributes, _ in found]
    assert kinds == [
        ' type="application/json" id="content"', ' type="application/json" id="picture-0"',
        ' type="application/json" id="picture-1"', '', ' type="module"',
    ]  # fmt: skip
    assert json.loads(found[0][1]) == CONTENT
    assert json.loads(found[1][1]) == {'photo': HOSTILE}
    assert '<!--' not in found[0][1]
    title = re.search('<title>(.*?)</title>', rendered(), re.DOTALL)[1]
    assert '<script' not in title and html.unescape(title).startswith('Report of </script>')
    rendered().encode('utf-8')


def test_the_policy_allows_exactly_the_scripts_and_the_style_of_the_page():
    text = rendered(page._for_script('a = "</script><!--";\r\nb = 2;'))
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1])
    assert policy.startswith("default-src 'none'; ") and 'unsafe' not in policy and 'http' not in policy

    def source(content):
        return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"

    *_, library, script = (content for _, content in scripts(text))
    assert library == 'a = "\\x3c/script>\\x3c!--";\nb = 2;'
    style = re.search('<style>(.*?)</style>', text, re.DOTALL)[1]
    assert f'script-src {source(library)} {source(script)};' in policy and f'style-src {source(style)};' in policy


def test_the_page_names_no_other_address():
    text = rendered()
    assert not re.findall(r'(?:src|href)="(?!#)[^"]*"|url\(|@import|//[a-z]+\.[a-z]', text)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, 'vl_convert', None)
    with pytest.raises(OptionError, match=r"pip install 'deeplab-toolkit\[report\]'"):
        page.charts_library()


def test_a_picture_keeps_its_ids():
    random = np.random.default_rng(0)
    photo = random.integers(0, 256, (40, 60, 3), np.uint8)
    truth, predicted = random.integers(0, 256, (2, 40, 60), np.uint8)
    found = pictures.encoded(photo, truth, [predicted], 10**6)
    assert (found['width'], found['height'], found['image_width'], found['image_height']) == (60, 40, 60, 40)
    assert zlib.decompress(base64.b64decode(found['truth'])) == truth.tobytes()
    assert zlib.decompress(base64.b64decode(found['predictions'][0])) == predicted.tobytes()
    with Image.open(io.BytesIO(base64.b64decode(found['photo']))) as image:
        assert (image.format, image.size) == ('WEBP', (60, 40))


@pytest.mark.parametrize('shape', [(300, 500), (3000, 20), (1, 1)])
def test_a_picture_stays_within_its_share(shape):
    noise = np.random.default_rng(0).integers(0, 21, shape, np.uint8)
    found = pictures.encoded(noise * 12, noise, [noise], 30_000)
    assert len(json.dumps(found)) < 31_000
    assert found['width'] >= 1 and found['height'] >= 1


def test_500_pictures_leave_a_page_below_25_megabytes():
    """Of noise, which compresses worst, beside 10 MB of charts and data."""
    used = 10_000_000
    noise = np.random.default_rng(0).integers(0, 21, (300, 500), np.uint8)
    found = pictures.encoded(noise * 12, noise, [noise, noise], pictures.share(500, used))
    assert 500 * (len(json.dumps(found)) + 100) + used < 25_000_000


def write_run(folder):
    """A log folder with the files of a training, some of them damaged."""
    (folder / 'eval').mkdir()
    lines = [{'step': i, 'loss': 1 / i, 'learning_rate': 0.1} for i in range(1, 4001)]
    lines += [{'step': 4001, 'loss': None}, {'step': 20, 'miou': 0.5, 'eval_split': 'val'}]
    (folder / 'metrics.jsonl').write_text('\n'.join(map(json.dumps, lines)) + '\n{"step": 9, "lo')
    for step, miou in ((200, 0.5), (30, 0.25)):
        content = {'global_step': step, 'miou': miou, 'class_iou': {'sky': miou, 'sea': None}, 'split': 'val'}
        (folder / 'eval' / f'metrics-{step}.json').write_text(json.dumps(content))
    (folder / 'metrics-9.json').write_text('{"global_step": "x"')
    command = ['--seed=3', '--dataset_dir=a b']
    run = {'command': command, 'command_line': 'deeplab train', 'seed': 3, 'versions': {'tensorflow': '2'}}
    run['records'] = {'images': 5, 'split': 'train', 'digest': 'sha256:0123456789abcdef'}
    (folder / 'run.json').write_text(json.dumps({'runs': [run]}))


def test_files_of_a_run(tmp_path):
    write_run(tmp_path)
    found = run_files.read('run', str(tmp_path))
    steps = [point['step'] for point in found.points]
    assert (len(steps), steps[0], steps[-1]) == (run_files.MOST_POINTS, 1, 4001)
    assert found.points[-1]['loss'] is None
    assert [(each.step, each.settings['split']) for each in found.curve.evaluations] == [(30, 'val'), (200, 'val')]
    facts = dict(run_files.facts(found.manifest))
    assert facts['Seed'] == '3' and facts['Versions'] == 'tensorflow 2'
    assert '5 images of split train (sha256:0123456789ab' in facts['Training records']
    assert run_files.repeat_line(found) == (f'deeplab train --from={tmp_path}/run.json --train_logdir={tmp_path}_again')


def test_an_empty_folder_has_no_files_of_a_run(tmp_path):
    found = run_files.read('run', str(tmp_path))
    assert not found.points and not found.curve.evaluations and not run_files.facts(found.manifest)
    assert run_files.repeat_line(found) == ''


def test_pictures_leave_room_for_the_rest_of_the_page():
    assert pictures.share(10, 10**6) == 1_700_000
    assert 500 * pictures.share(500, 20_000_000) + 20_000_000 <= pictures.MOST_BYTES
    assert pictures.share(500, 30_000_000) == 0


def test_a_run_manifest_of_other_types_is_no_error(tmp_path):
    run = {'command': ['a'], 'machine': ['x'], 'git': 'y', 'versions': 3, 'records': [], 'started': {'a': 1}}
    (tmp_path / 'run.json').write_text(json.dumps({'runs': [run]}))
    assert dict(run_files.facts(run_files.read('run', str(tmp_path)).manifest)) == {'Started': "{'a': 1}"}


def test_only_pages_of_tasks_have_their_script():
    assert 'drawTask(' not in rendered()
    assert 'drawTask(' in page.render(CONTENT | {'tasks': []}, [], '')


def test_pictures_of_one_size_are_encoded_within_a_limit():
    drawn = {name: np.random.RandomState(0).randint(0, 256, (90, 120, 3), np.uint8) for name in ('one', 'two')}
    made = pictures.several_encoded(drawn, 10**6)
    assert [caption for caption, _ in made['pictures']] == ['one', 'two'] and (made['width'], made['height']) == (
        120,
        90,
    )
    with Image.open(io.BytesIO(base64.b64decode(made['pictures'][0][1]))) as shown:
        assert shown.size == (120, 90)
    small = pictures.several_encoded(drawn, 9000)
    assert small['width'] < 120 and sum(len(content) for _, content in small['pictures']) <= 9000
    assert pictures.several_encoded({}, 10)['pictures'] == []
