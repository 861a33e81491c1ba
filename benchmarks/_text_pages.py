"""Drawn pages of words at random places, sizes and angles, with the files that docs/text_detection.md describes."""

import pathlib

import numpy as np
from PIL import Image, ImageDraw, ImageFont

WORDS = 'exit open sale taxi museum bakery station coffee books hotel pharmacy number street parking'.split()


def draw(rng: np.random.Generator, side: int, words: int) -> tuple[Image.Image, list[tuple[np.ndarray, str]]]:
    """Returns a page and its texts: corners [4, 2], x and y, clockwise from the upper left one of the word."""
    ground, ink = rng.integers(150, 256, 3), rng.integers(0, 90, 3)
    if rng.random() < 0.3:
        ground, ink = ink, ground
    noise = rng.normal(0, 6, (side, side, 3))
    page = Image.fromarray(np.clip(ground + noise, 0, 255).astype(np.uint8))
    taken = Image.new('1', (side, side))
    texts = []
    for _ in range(words * 8):
        if len(texts) == words:
            break
        word = str(rng.choice(WORDS))
        font = ImageFont.load_default(float(rng.uniform(0.07, 0.16) * side))
        left, top, right, bottom = font.getbbox(word)
        width, height = right - left + 4, bottom - top + 4
        angle = np.deg2rad(rng.uniform(-35, 35))
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        shape = np.array([(0, 0), (width, 0), (width, height), (0, height)]) - (width / 2, height / 2)
        corners = shape @ turn.T + rng.uniform(0, side, 2)
        if corners.min() < 1 or corners.max() > side - 2:
            continue
        place = Image.new('1', (side, side))
        ImageDraw.Draw(place).polygon([tuple(corner) for corner in corners], fill=1)
        if (np.asarray(place) & np.asarray(taken)).any():
            continue
        taken.paste(1, mask=place)
        stamp = Image.new('L', (round(width) + 1, round(height) + 1))
        ImageDraw.Draw(stamp).text((2 - left, 2 - top), word, font=font, fill=255)
        # Of a place on the page, the place on the stamp.
        back = np.concatenate([turn.T, turn.T @ -corners[:1].T], axis=1)
        mask = stamp.transform((side, side), Image.Transform.AFFINE, tuple(back.ravel()), Image.Resampling.BILINEAR)
        page.paste(tuple(ink.tolist()), mask=mask)
        texts.append((corners, word))
    return page, texts


def write(folder: pathlib.Path, images: int, seed: int = 0, side: int = 257, words: int = 5) -> pathlib.Path:
    """Writes img_N.jpg and img_N.txt, the text files with a byte order mark; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for number in range(1, images + 1):
        page, texts = draw(rng, side, words)
        page.save(folder / f'img_{number}.jpg', quality=90)
        lines = [','.join([*(f'{value:.1f}' for value in corners.ravel()), word]) for corners, word in texts]
        (folder / f'img_{number}.txt').write_text('\n'.join(lines), 'utf-8-sig')
    return folder
