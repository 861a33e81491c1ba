"""Draws the pictures of the documentation: `python docs/site/pictures.py --demo=FOLDER` writes them to docs/pictures/.

It runs the demo, unless the folder has it already, then report, preview and doctor on the demo's data, and photographs
their pages in Chromium. It needs the extras `report` and `dev`. architecture.svg is drawn by hand.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image, ImageOps
from selenium import webdriver

ROOT = pathlib.Path(__file__).parents[2]
PICTURES = ROOT / 'docs' / 'pictures'
LIMIT = 300_000  # bytes of a picture
_COLORS = (256, 128, 64, 32)  # of a palette, tried in this order
_WIDTH = 1200  # of a page in pixels
_SECONDS = 3  # until charts, and pictures that come into view, are drawn


def _deeplab(folder: pathlib.Path, program: str, *words: str, statuses: tuple[int, ...] = (0,)) -> None:
    """Runs a program in a folder, so that pages show short paths; raises `RuntimeError` if it fails."""
    command = [sys.executable, '-m', 'deeplab', program, *words]
    environment = {**os.environ, 'PYTHONPATH': str(ROOT)}
    status = subprocess.run(command, check=False, cwd=folder, env=environment).returncode
    if status not in statuses:
        raise RuntimeError(f'{" ".join(command)} ended with status {status}')


def _write(picture: Image.Image, name: str) -> None:
    """Writes a picture with as many colors as the limit allows."""
    for colors in _COLORS:
        stream = io.BytesIO()
        picture.convert('RGB').quantize(colors, dither=Image.Dither.NONE).save(stream, 'PNG', optimize=True)
        if stream.tell() < LIMIT:
            (PICTURES / name).write_bytes(stream.getvalue())
            return
    raise RuntimeError(f'{name} has {stream.tell()} bytes with {colors} colors. Show less of it.')


@contextlib.contextmanager
def _browser(profile: str) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which('chromium') or shutil.which('google-chrome') or ''
    for argument in ('headless', 'no-sandbox', 'disable-gpu', 'hide-scrollbars', f'user-data-dir={profile}'):
        options.add_argument(f'--{argument}')
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which('chromedriver')))
    try:
        yield driver
    finally:
        driver.quit()


def _photograph(page: pathlib.Path, height: int, section: str = '') -> Image.Image:
    """Returns a part of a page, `_WIDTH` pixels wide: its top, or the section of an id."""
    with tempfile.TemporaryDirectory() as profile, _browser(profile) as driver:
        size = {'width': _WIDTH, 'height': height, 'deviceScaleFactor': 1, 'mobile': False}
        driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', size)
        driver.get(page.resolve().as_uri())
        time.sleep(_SECONDS)
        driver.execute_script('document.getElementById(arguments[0])?.scrollIntoView({behavior: "instant"})', section)
        time.sleep(_SECONDS)
        return Image.open(io.BytesIO(driver.get_screenshot_as_png()))


def _write_faulty_copy(scenes: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes 60 of the demo's images and masks, with faults as they occur in practice."""
    for source, name, end in (('JPEGImages', 'images', 'jpg'), ('SegmentationClass', 'masks', 'png')):
        (folder / name).mkdir(parents=True)
        for path in sorted((scenes / source).glob(f'*.{end}'))[:60]:
            shutil.copy(path, folder / name)
    (folder / 'lists').mkdir()
    names = [path.stem for path in sorted((folder / 'images').iterdir())]
    (folder / 'lists' / 'train.txt').write_text('\n'.join(names[:50]))
    (folder / 'lists' / 'val.txt').write_text('\n'.join(names[50:]))
    shutil.copy(scenes / 'street.json', folder / 'street.json')
    masks = sorted((folder / 'masks').iterdir())
    masks[3].unlink()
    for path, change in (
        (masks[7], lambda ids: np.where(ids == ids.max(), 9, ids)),  # an id that is no class
        (masks[12], np.fliplr),  # an image that was flipped without its mask
        (masks[20], lambda ids: ids[::2, ::2]),  # another size
    ):
        with Image.open(path) as mask:
            palette, ids = mask.getpalette(), change(np.asarray(mask)).astype(np.uint8)
        changed = Image.fromarray(ids)
        if palette is not None:
            changed.putpalette(palette)
        changed.save(path)
    image = sorted((folder / 'images').iterdir())[30]
    image.write_bytes(image.read_bytes()[:2000])  # an interrupted download


def main() -> None:
    """Draws all pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--demo', type=pathlib.Path, default='deeplab_demo', help='folder of the demo')
    demo = parser.parse_args().demo.resolve()
    PICTURES.mkdir(exist_ok=True)
    if not (demo / 'sheet.png').exists():
        _deeplab(ROOT, 'demo', f'--workdir={demo}')
    with Image.open(demo / 'sheet.png') as sheet:
        upper_half = sheet.crop((0, 0, sheet.width, int(0.511 * sheet.height)))
    _write(ImageOps.contain(upper_half, (_WIDTH, _WIDTH)), 'demo.png')
    data = ('--dataset=voc/street.json', '--dataset_dir=tfrecord')
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        page = folder / 'report.html'
        _deeplab(demo, 'report', 'train', *data, '--metrics_dir=eval', f'--output={page}')
        _write(_photograph(page, 1250), 'report.png')
        _write(_photograph(page, 900, 'images'), 'report_images.png')
        sheet_path = folder / 'preview.png'
        changes = ('--rotation_degrees=10', '--jitter_brightness=0.4', '--jitter_hue=0.1', '--min_scale_factor=0.75')
        sizes = ('--train_crop_size=129,177', '--preview_images=1', '--preview_samples=5')
        _deeplab(demo, 'preview', *data, *changes, *sizes, f'--preview_path={sheet_path}')
        with Image.open(sheet_path) as preview:
            _write(ImageOps.contain(preview, (_WIDTH, 4 * _WIDTH)), 'preview.png')
        _write_faulty_copy(demo / 'voc', folder / 'street')
        output = ('--output=street.out.json', '--html=doctor.html')
        _deeplab(folder, 'doctor', 'street', '--dataset=street/street.json', *output, statuses=(0, 1))
        _write(_photograph(folder / 'doctor.html', 1300), 'doctor.png')


if __name__ == '__main__':
    main()
