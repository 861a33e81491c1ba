"""Matrix products that round as the original's did: which terms were added up together, and in which order.

TensorFlow 1.15 gave its convolutions to the tensor contraction of the library Eigen, which cut a product into blocks
of terms by its size and by the threads that it took, and each block to MKL-DNN, which cut what was longer than it liked
once more. Within a block, `a * b` is added to one float32 after the other with one rounding for both (a fused
multiply-add); the blocks' sums are added in order. The input gradient of small images went to MKL-DNN at once, and that
of single pixels to a product of Eigen's that rounds twice.

What is known of Eigen's rules is from the headers in the 1.15 package (each function names its source); the build has
AVX, the processor a first cache of 48 KiB, and there are two threads. MKL-DNN's limit and how many images the gradients
of convolutions take at a time were found from the goldens, whose logits (`test_original_arithmetic.py`) and gradients
(`test_training.py`) confirm all of it to the last bit. Left out is that Eigen shares no terms whose sums are larger
than the last cache: no golden has such.

A product is `[rows, terms] @ [terms, columns]`. NumPy computes it in float64 and rounds once after each step, so that
every processor gives the same bits. It is slow and for tests alone.
"""

import fractions

import numpy as np

# A shard is what one thread adds up: blocks (first term, end) in order. Shards are added up in order, too.
Shard = list[tuple[int, int]]

THREADS = 2
LANES = 8  # numbers in a vector register
PANEL = 4  # rows that Eigen's kernel takes at a time; it takes two registers of columns
FIRST_CACHE = 48 << 10  # bytes
LONGEST_SHARED_BLOCK = 320  # terms, where there is more than one thread
LONGEST_LIBRARY_BLOCK = 384  # terms, in MKL-DNN
SMALLEST_SHARD = 12 * LANES  # terms
WORKING_SET = (30 << 20) // 4  # numbers in the three matrices of the images that are multiplied together, at least
LARGE_IMAGE = 1 << 16  # numbers in an image's three matrices, for each thread; from here on its product is its own
LONG_VECTOR, VECTOR_BLOCK = 128, 16  # terms of a single row's product, from where it adds up blocks
TRANSFER = 11 / 64  # cycles for a byte
TO_START = 100_000  # cycles until other threads work
CACHED = 1 << 15  # results at a time, so that the work stays in the cache
_SHORTER_MANTISSA = 64 - 29  # a shift that leaves of float64 what float32 has no room for
_HALF = np.iinfo(np.int64).min  # of the last place in float32


def _rounded_up(count: int, unit: int = LANES) -> int:
    return -(-count // unit) * unit


def _block(terms: int, threads: int) -> int:
    """Terms of Eigen's blocks: as many as the cache takes, made even.

    Source: `evaluateProductBlockingSizesHeuristic` in GeneralBlockPanelKernel.h.
    """
    longest = terms
    fitting = (FIRST_CACHE - 2 * LANES * PANEL * 4) // ((2 * LANES + PANEL) * 4) // LANES * LANES
    if threads > 1:
        longest = min(terms, LONGEST_SHARED_BLOCK)
    elif terms > fitting:
        rest = terms % fitting
        spare = (fitting - 1 - rest) // (LANES * (terms // fitting + 1)) if rest else 0
        longest = fitting - LANES * spare
    return min(terms, _rounded_up(terms // -(-terms // longest)))


def _shares_rows(columns: int, rows: int) -> bool:
    """Whether the threads share the rows, which is usual, and not the columns.

    Source: `shardByCol` in TensorContractionThreadPool.h, whose columns are rows here.
    """
    own_columns, own_rows, unit = columns // THREADS, rows // THREADS, THREADS * PANEL
    if own_columns >= PANEL:
        if own_rows < PANEL:
            return False
        if own_rows < 4 * PANEL and rows % unit and (columns % unit == 0 or columns // rows >= 6):
            return False
    return own_rows >= 16 * PANEL or columns <= rows * 32


def _threads(terms: int, columns: int, rows: int) -> int:
    """How many threads pay if they share the results.

    Source: `contractionCost` in TensorContractionThreadPool.h and `numThreads` in TensorCostModel.h.
    """
    if rows == 1:
        return 1
    step = _block(terms, THREADS)
    slowness = 2 if columns < PANEL or rows < 2 * LANES else 1
    reading = step / columns if _shares_rows(columns, rows) else step / rows
    each = step * slowness / LANES + 4 * TRANSFER * (1 + reading)
    return 2 if columns * rows * each >= TO_START * (1 + THREADS - 0.9) else 1


def _threads_by_terms(terms: int, columns: int, rows: int) -> int:
    """How many threads pay if they share the terms, and add up what each has got.

    Source: `numThreadsInnerDim` in TensorContractionThreadPool.h.
    """
    slowness = 2 if rows < PANEL or columns < 2 * LANES else 1
    alone = terms * (slowness * columns * rows / LANES + 4 * TRANSFER * (1 + rows))
    adding = columns * rows * (3 * TRANSFER + 1 / LANES)
    return 2 if alone / THREADS + TO_START + THREADS * (adding + 3000) < alone else 1


def _are_terms_shared(terms: int, columns: int, rows: int, threads: int, threads_by_terms: int) -> bool:
    """Source: `shardByInnerDim` in TensorContractionThreadPool.h."""
    own = terms // threads_by_terms
    if rows == 1 or threads_by_terms < 2 or threads_by_terms < threads or own < 2 * PANEL:
        return False
    if max(columns, rows) // threads < PANEL:
        return True
    return own > 8 * PANEL and (min(columns, rows) < 2 * PANEL or threads_by_terms > threads)


def _cut(start: int, stop: int, step: int) -> Shard:
    return [(first, min(stop, first + step)) for first in range(start, stop, step)]


def eigen_shards(terms: int, columns: int, rows: int) -> list[Shard]:
    """How Eigen split a product.

    Args:
      terms: numbers in a row of the left matrix.
      columns: of the right matrix.
      rows: of the left matrix.

    Source: `evalProductImpl` and `EvalShardedByInnerDimContext` in TensorContractionThreadPool.h.
    """
    threads, by_terms = _threads(terms, columns, rows), _threads_by_terms(terms, columns, rows)
    if not _are_terms_shared(terms, columns, rows, threads, by_terms):
        return [_cut(0, terms, _block(terms, threads))]
    share = min(terms, max(SMALLEST_SHARD, _rounded_up(-(-terms // by_terms))))
    number = -(-terms // share)
    return [_cut(start, stop, _block(stop - start, number)) for start, stop in _cut(0, terms, share)]


def library_blocks(start: int, stop: int) -> Shard:
    """How MKL-DNN split a block: what is left is halved where it is less than two of the longest."""
    blocks = []
    while start < stop:
        length = stop - start
        if length >= 2 * LONGEST_LIBRARY_BLOCK:
            length = LONGEST_LIBRARY_BLOCK
        elif length > LONGEST_LIBRARY_BLOCK:
            length = (length + 1) // 2
        blocks.append((start, start + length))
        start += length
    return blocks


def contraction(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """`left @ right` of float32 [rows, terms] and [terms, columns] by Eigen: [rows, columns] float32."""
    shards = eigen_shards(left.shape[1], right.shape[1], left.shape[0])
    return _sums(left, right, [[part for block in shard for part in library_blocks(*block)] for shard in shards])


def of_patches(patches: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """A convolution: float32 [n, h, w, terms] and [terms, filters] make [n, h, w, filters]."""
    result = contraction(patches.reshape(-1, patches.shape[-1]), kernel)
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
    if images > 1 and (pixels * filters + terms * filters + pixels * terms) // THREADS < LARGE_IMAGE:
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
    """The product of a single row, [1, terms], rounded after each product, too: long ones in blocks.

    Source: `general_matrix_vector_product` in GeneralMatrixVector.h.
    """
    terms = right.shape[0]
    total = np.zeros(right.shape[1], np.float32)
    for first, end in _cut(0, terms, terms if terms < LONG_VECTOR else VECTOR_BLOCK):
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
    tails = np.empty(exact.shape, np.int64)
    sums = []
    for start, stop in blocks:
        rounded = np.zeros(exact.shape, np.float32)
        for factor, row in zip(factors[start:stop], wide[start:stop], strict=True):
            np.multiply(factor, row, out=exact)
            exact += rounded
            np.left_shift(exact.view(np.int64), _SHORTER_MANTISSA, out=tails)
            if tails.min() == _HALF:
                _leave_the_middle(exact, factor, row, rounded, np.argwhere(tails == _HALF))
            rounded[...] = exact
        sums.append(rounded)
    return _added(sums)


def _leave_the_middle(exact, factor, row, rounded, places) -> None:
    """Moves float64 sums that lie in the middle of two float32 to the side of the true sum, which float64 lost.

    One of some ten thousand million is rounded twice otherwise, and ten steps of a large network show that.
    """
    for line, column in places:
        product = fractions.Fraction(factor[line, 0]) * fractions.Fraction(row[column])
        error = product + fractions.Fraction(float(rounded[line, column])) - fractions.Fraction(exact[line, column])
        if error:
            exact[line, column] = np.nextafter(exact[line, column], np.inf if error > 0 else -np.inf)


def _added(parts: list[np.ndarray]) -> np.ndarray:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
