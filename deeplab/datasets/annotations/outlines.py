"""Outlines of areas, along the edges of pixels, simplified so that neighbors share their border.

Borders are cut into arcs at the points where three areas meet, and each arc is simplified by itself (Douglas and
Peucker, 1973, "Algorithms for the reduction of the number of points required to represent a digitized line"), so two
neighbors have the same line between them, without gaps or overlaps.
"""

from __future__ import annotations

import collections
from typing import NamedTuple

import numpy as np

# Steps along the edges of pixels, in columns and rows: right, down, left, up.
_STEPS = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])
_CORNERS_OF_AN_AREA = 3


class Outline(NamedTuple):
    """The outline of a connected area, of pixels that share an edge.

    Attributes:
      number: number of the area.
      box: first column, first row, columns and rows of its rectangle.
      ring: its outer border, [n, 2] int64 of column and row; whole numbers are corners of pixels, and the last point is
        connected with the first. The area is to the right of the way along the ring on a screen, where rows go down.
      holes: borders of its holes, each as `ring`.
    """

    number: int
    box: tuple[int, int, int, int]
    ring: np.ndarray
    holes: tuple[np.ndarray, ...]


def outlines_of(areas: np.ndarray, tolerance: float = 0.0, least_area: int = 0) -> list[Outline]:
    """Returns the outlines of connected areas.

    Args:
      areas: number of the area of each pixel, [h, w], from 1 on; 0 for none. The pixels of a number share edges.
      tolerance: distance in pixels by which the simplified border may leave the pixels' edges, 0 or more; 0 keeps all
        corners, so that the pixels whose centers are inside an outline are the area.
      least_area: areas, and holes, of fewer pixels are left out; a hole that is left out belongs to the area.
    """
    rings = _Rings(np.pad(areas, 1))
    counts = np.bincount(areas.ravel())
    outers: dict[int, Outline] = {}
    holes: dict[int, list[np.ndarray]] = collections.defaultdict(list)
    for place, number in enumerate(rings.areas):
        if not number or counts[number] < least_area:
            continue
        corners, ring = rings.corners(place), rings.simplified(place, tolerance)
        pixels = _pixels(corners)
        if len(ring) < _CORNERS_OF_AN_AREA or abs(pixels) < least_area:
            continue
        if pixels < 0:
            holes[number].append(ring)
        else:
            (left, top), (right, bottom) = corners.min(axis=0).tolist(), corners.max(axis=0).tolist()
            outers[number] = Outline(number, (left, top, right - left, bottom - top), ring, ())
    return [outers[number]._replace(holes=tuple(holes[number])) for number in sorted(outers)]


class _Rings:
    """The closed borders of all areas of a padded map, as lists of directed edges between pixels.

    Attributes:
      areas: number of the area to the right of each ring; 0 for none.
    """

    def __init__(self, inside: np.ndarray) -> None:
        # An edge is 4 * (row * columns + column) + direction, of the point where it begins and of its direction.
        # A point is the upper left corner of the pixel of its row and column, in the map without the padding.
        rows, columns = inside.shape[0] - 1, inside.shape[1] - 1
        upper_left, upper_right = inside[:-1, :-1], inside[:-1, 1:]
        lower_left, lower_right = inside[1:, :-1], inside[1:, 1:]
        # Of each direction: the pixel to the right of an edge that begins at a point, and the one to its left.
        right = np.stack([lower_right, lower_left, upper_left, upper_right], axis=-1)
        left = np.stack([upper_right, lower_right, lower_left, upper_left], axis=-1)
        is_edge = right != left  # [rows, columns, 4]
        self._columns = columns
        places = np.arange(rows * columns * 4).reshape(rows, columns, 4)
        edges = places[is_edge]
        self._values = right[is_edge]
        direction, point = edges % 4, edges // 4
        ends = point + (_STEPS[direction] @ np.array([1, columns]))
        # Beyond the end, a border turns right around its own pixels if the pixel ahead on the right is another one;
        # else it goes straight, or turns left. So areas that share only a corner are two.
        flat_right, flat_left = right.reshape(-1, 4), left.reshape(-1, 4)
        ahead_right = flat_right[ends, direction]
        ahead_left = flat_left[ends, direction]
        turn = np.where(ahead_right != self._values, 1, np.where(ahead_left != self._values, 0, -1))
        following = ends * 4 + (direction + turn) % 4
        order = np.full(rows * columns * 4, -1, np.int64)
        order[edges] = np.arange(len(edges))
        self._next = order[following]
        self._direction, self._point = direction, point
        # Points where the borders of more than two areas meet, and the corners of the image, stay where they are.
        is_junction = is_edge.sum(axis=-1) > 2
        is_junction[:: rows - 1 or 1, :: columns - 1 or 1] = True
        self._is_junction = is_junction.ravel()
        self._edges = self._in_rings()
        self.areas = [int(self._values[ring[0]]) for ring in self._edges]

    def _in_rings(self) -> list[list[int]]:
        """Returns the edges of each ring, from its uppermost, leftmost point on."""
        following, rings = self._next.tolist(), []
        is_seen = bytearray(len(following))
        for start in range(len(following)):
            if is_seen[start]:
                continue
            ring, edge = [], start
            while not is_seen[edge]:
                is_seen[edge] = 1
                ring.append(edge)
                edge = following[edge]
            rings.append(ring)
        return rings

    def _points(self, edges: np.ndarray) -> np.ndarray:
        points = self._point[edges]
        return np.stack([points % self._columns, points // self._columns], axis=1)

    def _turning(self, number: int) -> np.ndarray:
        """Returns the edges of a ring that begin at a corner of it, or at a junction."""
        edges = np.array(self._edges[number])
        direction = self._direction[edges]
        return np.asarray(edges[(direction != np.roll(direction, 1)) | self._is_junction[self._point[edges]]])

    def corners(self, number: int) -> np.ndarray:
        """Returns the corners of a ring, [n, 2]."""
        return self._points(self._turning(number))

    def simplified(self, number: int, tolerance: float) -> np.ndarray:
        """Returns the points of a ring that remain, [n, 2]."""
        edges = self._turning(number)
        points, is_fixed = self._points(edges), self._is_junction[self._point[edges]]
        if tolerance <= 0:
            return np.asarray(points[_is_corner(points)])
        if not is_fixed.any():
            is_fixed[np.lexsort((points[:, 0], points[:, 1]))[0]] = True  # the same point for both areas
        starts = np.flatnonzero(is_fixed)
        points = np.concatenate([points[starts[0] :], points[: starts[0] + 1]])
        ends = [*(starts - starts[0]).tolist(), len(points) - 1]
        arcs = [_simplified(points[a : b + 1], tolerance)[:-1] for a, b in zip(ends[:-1], ends[1:], strict=True)]
        joined = np.concatenate(arcs)
        return np.asarray(joined[_is_corner(joined)])


def _is_corner(points: np.ndarray) -> np.ndarray:
    """Returns which points of a ring, [n, 2], are not on the line between their neighbors: [n] bool."""
    before, after = points - np.roll(points, 1, axis=0), np.roll(points, -1, axis=0) - points
    return np.asarray(before[:, 0] * after[:, 1] != before[:, 1] * after[:, 0])


def _simplified(arc: np.ndarray, tolerance: float) -> np.ndarray:
    """Returns the points of an arc, [n, 2], that remain; the same ones from both ends."""
    if len(arc) <= 2:
        return arc
    ends = [arc[:2].ravel().tolist(), arc[::-1][:2].ravel().tolist()]
    if ends[1] < ends[0]:
        return _simplified(arc[::-1], tolerance)[::-1]
    keeps = np.zeros(len(arc), bool)
    keeps[[0, -1]] = True
    waiting = [(0, len(arc) - 1)]
    while waiting:
        first, last = waiting.pop()
        if last - first < 2:
            continue
        distances = _distances(arc[first + 1 : last], arc[first], arc[last])
        farthest = int(distances.argmax())
        if distances[farthest] > tolerance:
            middle = first + 1 + farthest
            keeps[middle] = True
            waiting += [(first, middle), (middle, last)]
    return np.asarray(arc[keeps])


def _distances(points: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Returns the distances of points, [n, 2], from the line between two points, or from the point that both are."""
    along = last - first
    length = np.hypot(*along)
    if length == 0:
        return np.asarray(np.hypot(*(points - first).T))
    across = along[0] * (points[:, 1] - first[1]) - along[1] * (points[:, 0] - first[0])
    return np.asarray(np.abs(across) / length)


def _pixels(points: np.ndarray) -> int:
    """Returns the pixels inside of a ring of corners, [n, 2]; negative for the border of a hole."""
    following = np.roll(points, -1, axis=0)
    return int((points[:, 0] * following[:, 1] - following[:, 0] * points[:, 1]).sum()) // 2


def inner_pixels(ring: np.ndarray) -> np.ndarray:
    """Returns the pixels inside of a ring that touch its corners, [n, 2], for formats that fill borders, too."""
    before, after = ring - np.roll(ring, 1, axis=0), np.roll(ring, -1, axis=0) - ring
    before, after = (each / np.maximum(np.hypot(*each.T), 1e-9)[:, np.newaxis] for each in (before, after))
    # To the right of the way: (x, y) turned to (-y, x).
    inward = np.stack([-(before + after)[:, 1], (before + after)[:, 0]], axis=1)
    return np.asarray(ring - (inward < 0))
