"""The page of the doctor in a headless Chromium: no error, no picture missing, dark and narrow screens.

Skipped without Chromium, ChromeDriver and the package selenium.
"""

import shutil

import pytest

from deeplab.options import DoctorOptions
from deeplab.programs import doctor
from tests.checks.test_html_report import HOSTILE, broken

webdriver = pytest.importorskip('selenium.webdriver', reason='the package selenium is not installed')

CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser') or shutil.which('google-chrome')
DRIVER = shutil.which('chromedriver')
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason='chromium and chromedriver are not installed'),
]

# Flags that end a line behind their dashes: their letters are below the dashes.
BROKEN_FLAGS = """
  const broken = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    for (const {0: flag, index} of texts.currentNode.data.matchAll(/--[a-z]/g)) {
      const range = document.createRange();
      range.setStart(texts.currentNode, index);
      range.setEnd(texts.currentNode, index + flag.length);
      if (new Set([...range.getClientRects()].map((part) => part.top)).size > 1) broken.push(texts.currentNode.data);
    }
  }
  return broken;
"""


def test_the_page_in_a_browser(tmp_path):
    data = broken().write(tmp_path / 'data', 'files')
    path = tmp_path / 'doctor.html'
    doctor.run(DoctorOptions(str(data), num_classes=4, output=str(tmp_path / 'a.json'), html=str(path)))
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ('headless', 'no-sandbox', 'disable-gpu', 'disable-dev-shm-usage', 'no-first-run'):
        options.add_argument(f'--{argument}')
    options.add_argument(f'--user-data-dir={tmp_path / "profile"}')
    options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        dark = {'features': [{'name': 'prefers-color-scheme', 'value': 'dark'}]}
        driver.execute_cdp_cmd('Emulation.setEmulatedMedia', dark)
        screen = {'width': 380, 'height': 800, 'deviceScaleFactor': 1, 'mobile': False}
        driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', screen)
        driver.get(f'file://{path}')
        assert driver.execute_script('return getComputedStyle(document.body).backgroundColor') == 'rgb(22, 24, 29)'
        assert driver.execute_script('return document.documentElement.scrollWidth') <= 380
        assert driver.execute_script(BROKEN_FLAGS) == []
        loaded = 'for (const image of document.images) { image.loading = "eager"; await image.decode(); }'
        driver.execute_async_script(f'(async (done) => {{ {loaded} done(); }})(arguments[0])')
        assert HOSTILE in driver.execute_script('return document.body.textContent')
        assert driver.get_log('browser') == []
    finally:
        driver.quit()
