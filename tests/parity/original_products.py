"""Matrix products that round as the original's did: which terms were added up together, and in which order.

TensorFlow 1.15 gave its convolutions to the tensor contraction of the library Eigen, which cut a product into blocks
of terms by its size and by the threads that it took, and each block to MKL-DNN, which cut what was longer than it liked
once more. Within a block, `a * b` is added to one float32 after the other with one rounding for both (a fused
multiply-add); the blocks' sums are added in order. A small input gradient went to MKL-DNN at once.

The rules below are Eigen's (`TensorContractionThreadPool.h`, `GeneralBlockPanelKernel.h` and `TensorCostModel.h` among
the headers of the 1.15 package) for a build with AVX, a first cache of 48 KiB and two threads, as the goldens' logits
and gradients confirm to the last bit (`test_original_arithmetic.py`); MKL-DNN's limit was found from the goldens.
A product is `[rows, terms] @ [terms, columns]`. NumPy computes it in float64 and rounds after each step, so that every
processor gives the same bits. It is slow and for tests alone.
"""

import numpy as np

# A shard is what one thread adds up: blocks (first term, end) in order. Shards are added up in order, too.
Shard = list[tuple[int, int]]

THREADS = 2
LANES = 8  # numbers in a vector register
PANEL = 4  # rows that Eigen's kernel takes at a time; it takes two registers of columns
FIRST_CACHE = 48 << 10  # bytes
LARGEST_SHARED_BLOCK = 320  # terms, where there is more than one thread
LARGEST_LIBRARY_BLOCK = 384  # terms, in MKL-DNN
SMALLEST_SHARD = 12 * LANES  # terms
WORKING_SET = (30 << 20) // 4  # numbers: so many images at a time as have them in their three matrices, at least
LARGE_MATRIX = 1 << 16  # numbers in the three matrices for each thread, from where two threads share an image's product
TRANSFER = 11 / 64  # cycles for a byte
TO_START = 100_000  # cycles until other threads work
CACHED = 1 << 15  # results at a time, so that the work stays in the cache
# Cycles to find a pixel of a patch: three divisions of 24 and 14 products, for a register of numbers.
PATCH_CYCLES = (3 * 24 + 14) / LANES


def _rounded_up(count: int, unit: int = LANES) -> int:
    return -(-count // unit) * unit


def _block(terms: int, columns: int, rows: int, threads: int) -> int:
    """Terms of Eigen's blocks: as many as the cache takes, made even."""
    panel = 2 * LANES + PANEL
    fitting = (FIRST_CACHE - 2 * LANES * PANEL * 4) // (panel * 4) // LANES * LANES
    longest = terms
    if threads > 1:
        longest = min(terms, fitting, LARGEST_SHARED_BLOCK)
    elif terms > fitting and max(terms, columns, rows) >= 48:
        rest = terms % fitting
        spare = (fitting - 1 - rest) // (LANES * (terms // fitting + 1)) if rest else 0
        longest = fitting - LANES * spare
    return min(terms, _rounded_up(terms // -(-terms // longest)))


def _shares_rows(columns: int, rows: int) -> bool:
    """Whether the threads share the rows, which is usual, and not the columns."""
    own_columns, own_rows, unit = columns // THREADS, rows // THREADS, THREADS * PANEL
    if own_columns >= PANEL:
        if own_rows < PANEL:
            return False
        if own_rows < 4 * PANEL and rows % unit and (columns % unit == 0 or columns // rows >= 6):
            return False
    return own_rows >= 16 * PANEL or columns <= rows * 32


def _threads(terms: int, columns: int, rows: int, gathering: float) -> int:
    """How many threads pay if they share the results. `gathering`: cycles to find one number of the left matrix."""
    step = _block(terms, columns, rows, THREADS)
    slowness = 2 if columns < PANEL or rows < 2 * LANES else 1
    shares_rows = _shares_rows(columns, rows)
    reading_right = 0 if shares_rows else 4 * TRANSFER
    reading_left = gathering + (4 * TRANSFER if shares_rows else 0)
    each = step * slowness / LANES + 4 * TRANSFER + reading_right * step / rows + reading_left * step / columns
    return 2 if columns * rows * each >= TO_START * (1 + THREADS - 0.9) else 1


def _threads_by_terms(terms: int, columns: int, rows: int, gathering: float) -> int:
    """How many threads pay if they share the terms, and add up what each has got."""
    slowness = 2 if rows < PANEL or columns < 2 * LANES else 1
    each = slowness * columns * rows / LANES + 4 * TRANSFER + (gathering + 4 * TRANSFER) * rows
    alone = terms * each
    adding = columns * rows * (3 * TRANSFER + 1 / LANES)
    return 2 if alone / THREADS + TO_START + THREADS * (adding + 3000) < alone else 1


def _are_terms_shared(terms: int, columns: int, rows: int, threads: int, threads_by_terms: int) -> bool:
    own = terms // threads_by_terms
    if rows == 1 or threads_by_terms < 2 or threads_by_terms < threads or own < 2 * PANEL:
        return False
    if max(columns, rows) // threads < PANEL:
        return True
    return own > 8 * PANEL and (min(columns, rows) < 2 * PANEL or threads_by_terms > threads)


def _cut(start: int, stop: int, step: int) -> Shard:
    return [(first, min(stop, first + step)) for first in range(start, stop, step)]


def eigen_shards(terms: int, columns: int, rows: int, gathering: float = 0.0) -> list[Shard]:
    """How Eigen split a product.

    Args:
      terms: numbers in a row of the left matrix.
      columns: of the right matrix.
      rows: of the left matrix.
      gathering: cycles that finding a number of the left matrix costs: 0, or PATCH_CYCLES.
    """
    threads = _threads(terms, columns, rows, gathering)
    by_terms = _threads_by_terms(terms, columns, rows, gathering)
    if _are_terms_shared(terms, columns, rows, threads, by_terms):
        share = min(terms, max(SMALLEST_SHARD, _rounded_up(-(-terms // by_terms))))
        number = -(-terms // share)
        return [_cut(start, stop, _block(stop - start, columns, rows, number)) for start, stop in _cut(0, terms, share)]
    return [_cut(0, terms, _block(terms, columns, rows, threads))]


def library_blocks(start: int, stop: int) -> Shard:
    """How MKL-DNN split a block: what is left is halved where it is less than two of the longest."""
    blocks = []
    while start < stop:
        length = stop - start
        if length >= 2 * LARGEST_LIBRARY_BLOCK:
            length = LARGEST_LIBRARY_BLOCK
        elif length > LARGEST_LIBRARY_BLOCK:
            length = (length + 1) // 2
        blocks.append((start, start + length))
        start += length
    return blocks


def contraction(left: np.ndarray, right: np.ndarray, gathering: float = 0.0) -> np.ndarray:
    """`left @ right` of float32 [rows, terms] and [terms, columns] by Eigen: [rows, columns] float32."""
    shards = eigen_shards(left.shape[1], right.shape[1], left.shape[0], gathering)
    return _sums(left, right, [[part for block in shard for part in library_blocks(*block)] for shard in shards])


def of_patches(patches: np.ndarray, kernel: np.ndarray, gathering: float) -> np.ndarray:
    """A convolution: float32 [n, h, w, terms] and [terms, filters] make [n, h, w, filters]."""
    result = contraction(patches.reshape(-1, patches.shape[-1]), kernel, gathering)
    return result.reshape(*patches.shape[:-1], kernel.shape[1])


def input_gradient(outer: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """What flows back to a convolution's patches.

    Args:
      outer: float32 [n, h, w, filters].
      kernel: float32 [terms, filters].

    Returns:
      float32 [n, h, w, terms].
    """
    images, height, width, filters = outer.shape
    terms = kernel.shape[0]
    pixels = height * width
    right = np.ascontiguousarray(kernel.T)
    flat = outer.reshape(images, pixels, filters)
    if images > 1 and (pixels * filters + terms * filters + pixels * terms) // THREADS < LARGE_MATRIX:
        result = _sums(flat.reshape(-1, filters), right, [library_blocks(0, filters)])
    else:
        multiply = _vector_product if pixels == 1 else contraction
        result = np.stack([multiply(image, right) for image in flat])
    return result.reshape(images, height, width, terms)


def weight_gradient(patches: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """What flows back to a kernel: float32 [n, h, w, terms] and [n, h, w, filters] make [terms, filters]."""
    (images, height, width, terms), filters = patches.shape, outer.shape[3]
    pixels = height * width
    together = -(-WORKING_SET // (pixels * terms + pixels * filters + terms * filters))
    parts = []
    for first, end in _cut(0, images, together):
        left = np.ascontiguousarray(patches[first:end].reshape(-1, terms).T)
        parts.append(contraction(left, outer[first:end].reshape(-1, filters)))
    return _added(parts)


def _vector_product(vector: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The product of a single row, [1, terms]: rounded after each product, too, and in blocks of 16 terms."""
    terms = right.shape[0]
    total = np.zeros(right.shape[1], np.float32)
    for first, end in _cut(0, terms, terms if terms < 128 else 16):
        block = np.zeros_like(total)
        for factor, row in zip(vector[0, first:end], right[first:end], strict=True):
            block = block + row * factor
        total = total + block
    return total[np.newaxis]


def _sums(left: np.ndarray, right: np.ndarray, shards: list[Shard]) -> np.ndarray:
    """`left @ right` of [rows, terms] and [terms, columns], by shards and blocks."""
    wide = right.astype(np.float64)
    results = np.empty((left.shape[0], right.shape[1]), np.float32)
    height = max(1, CACHED // right.shape[1])
    for first in range(0, left.shape[0], height):
        factors = left[first : first + height].T.astype(np.float64)[:, :, np.newaxis]  # [terms, height, 1]
        results[first : first + height] = _added([_shard_sum(factors, wide, shard) for shard in shards])
    return results


def _shard_sum(factors: np.ndarray, wide: np.ndarray, blocks: Shard) -> np.ndarray:
    """The sum of one shard, of float64 [terms, rows, 1] and [terms, columns]: float32 [rows, columns]."""
    exact = np.empty((factors.shape[1], wide.shape[1]))
    sums = []
    for start, stop in blocks:
        rounded = np.zeros(exact.shape, np.float32)
        for factor, row in zip(factors[start:stop], wide[start:stop], strict=True):
            np.multiply(factor, row, out=exact)
            exact += rounded
            rounded[...] = exact
        sums.append(rounded)
    return _added(sums)


def _added(parts: list[np.ndarray]) -> np.ndarray:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
