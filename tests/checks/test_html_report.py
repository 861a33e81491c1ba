"""The page of the doctor: findings, pictures and classes in one file without scripts.

Covers checks/html_report.py and pictures/html_page.py.
"""

import base64
import hashlib
import html
import io
import re

import numpy as np
import pytest
from PIL import Image

from deeplab.checks.data_rules import RULES
from deeplab.errors import OptionError
from deeplab.options import DoctorOptions
from deeplab.pictures import html_page
from deeplab.programs import doctor
from tests.helpers import broken_datasets

HOSTILE = '<img src=x onerror=alert(1)>&"{{style}}'


def broken():
    """Two splits with a fault of each kind of picture, and a name that is markup."""
    made = broken_datasets.Zoo()
    first, second, third, fourth, *_ = made['train']
    first.name = HOSTILE
    first.ids[first.ids == 3] = 7
    second.mask = broken_datasets.dataset_files.png(np.stack([second.ids] * 3, axis=2))
    third.image = third.image[:-200]
    fourth.mask = None
    return made


@pytest.fixture(scope='module')
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp('page')
    data = broken().write(folder / 'data', 'files')
    path = folder / 'pages' / 'deeplab_doctor.html'
    path.parent.mkdir()
    options = {'html': str(path.parent), 'output': str(folder / 'found.json'), 'num_classes': broken_datasets.CLASSES}
    result = doctor.run(DoctorOptions(str(data), fix=str(folder / 'copy'), **options))
    assert result.report.splitlines()[-1].endswith(f' and {path}')
    return path


def test_findings_stand_in_order_with_pictures(page):
    text = page.read_text('utf-8')
    parts = r'<article class="card finding is-(\w+)">.*?\d\. ([^<]+)</h3>(.*?)</article>'
    findings = re.findall(parts, text, re.DOTALL)
    rules = [RULES[name] for name in ('corrupt', 'no_mask', 'color_mask', 'ids')]
    assert [title for _, title, _ in findings] == [rule.title for rule in rules]
    for rule, (severity, _, content) in zip(rules, findings, strict=True):
        assert severity == 'error' and content.count('<img ') == 2
        assert f'Rule <code>{rule.name}</code>. A typical case in other data sets: ' in content
    for content in re.findall('data:image/webp;base64,([^"]+)"', text):
        with Image.open(io.BytesIO(base64.b64decode(content))) as image:
            assert (image.format, image.size) == ('WEBP', broken_datasets.SIZE[::-1]) or image.size == (320, 240)
    assert 'magenta' in text and 'the image cannot be read' in text and 'Left out (2)' in text
    assert text.count('<rect ') == 2 * broken_datasets.CLASSES
    assert f'{RULES["color_mask"].title}: 1 repaired (maps colors' in text


def test_a_flag_stays_whole():
    text = html_page.prose("Pass --a_b='<c>', or --d=e/f.g. Not a-b, not ---.")
    flag = '<span class="flag">{}</span>'.format
    assert text == f'Pass {flag("--a_b=&#x27;&lt;c&gt;&#x27;")}, or {flag("--d=e/f.g")}. Not a-b, not ---.'


def test_names_are_text(page):
    text = page.read_text('utf-8')
    assert '<img src=x' not in text and html.escape(HOSTILE) in text
    assert '<script' not in text and not re.findall(r'(?:src|href)="(?!#|data:)|url\(|@import', text)


def test_the_policy_allows_the_style_alone(page):
    text = page.read_text('utf-8')
    policy = html.unescape(re.search('Content-Security-Policy" content="([^"]+)"', text)[1])
    style = re.search('<style>(.*?)</style>', text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}';" in policy and "script-src 'none'" in policy
    assert ' style=' not in text


def test_a_page_that_cannot_be_written(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(OptionError, match='html: .*cannot be created'):
        doctor.run(DoctorOptions(str(tmp_path), output=str(tmp_path / 'a.json'), html=str(tmp_path / 'file/a.html')))
