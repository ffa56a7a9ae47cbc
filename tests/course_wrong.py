"""course_wrong - wrong solutions of the course's exercises, and what is said of each.

By exercise: (what the mistake is, what of the solution becomes what, words of the sentence).
"""

WRONG = {
    "00": [
        ("no bounds check", [("if (row < rows && column < columns) ", "")],
         "past the end of an array"),
        ("x and y exchanged", [
            ("int column = blockIdx.x * blockDim.x + threadIdx.x",
             "int row = blockIdx.x * blockDim.x + threadIdx.x"),
            ("int row = blockIdx.y * blockDim.y + threadIdx.y",
             "int column = blockIdx.y * blockDim.y + threadIdx.y"),
        ], "Some elements get no thread: x counts columns here"),
        ("rows of `rows` elements", [("row * columns + column", "row * rows + column")],
         r"row \* columns \+ column"),
    ],
    "01": [
        ("as it was", [("t / 128", "t % 2"), ("t % 128 * 2 + odd", "t")],
         r"warps whose threads part are 128, expected at most 0 \(line \d+\)"),
        ("half of the elements", [("t % 128 * 2", "t % 64 * 2")],
         "is never written.*128 threads of a block take its even elements"),
        ("the wrong half", [("if (odd == 0)", "if (odd == 1)")], r"out\[0\] is .*, expected"),
    ],
    "02": [
        ("loads by point, stored to shared memory",
         [("for (int k = t; k < 768; k += 256)", "for (int k = 3 * t; k < 3 * t + 3; k++)")],
         "bytes that global loads move are .*Neighbouring threads have to load neighbouring"),
        ("no barrier", [("    __syncthreads();\n", "")], "put __syncthreads"),
        ("no check at the end", [("if (first + k < 3 * n) ", "")], "past the end of an array"),
    ],
    "03": [
        ("the tile stays in its place",
         [("x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y; //", "//")],
         "All elements are there, in other places: tile"),
        ("no barrier", [("    __syncthreads();\n", "")], "put __syncthreads"),
        ("rows and columns of the slide",
         [("out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j]",
           "out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.x + j]")],
         "element|shared memory"),
        ("no tile", [("tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x]",
                      "out[x * n + y + j] = in[(y + j) * n + x]"),
                     ("out[(y + j) * n + x] = tile[threadIdx.x]", "tile[0][0] = 0; //")],
         "sectors of global memory beyond the fewest are .*turn the tile on its way"),
    ],
    "04": [
        ("padding",
         [("tile[32][32]", "tile[32][33]"), ("tx ^ row", "tx"), ("column ^ tx", "column")],
         "bytes of shared memory that a block declares are 4224, expected at most 4096"),
        ("swizzled on one side alone", [("column ^ tx", "column")],
         "what was stored at column . row has to be"),
        ("by the column", [("tx ^ row", "tx ^ tx"), ("column ^ tx", "column ^ column")],
         "a race|expected"),
        ("no swizzle", [("tx ^ row", "tx"), ("column ^ tx", "column")],
         "32 wavefronts a request, where 1 would do"),
    ],
    "05": [
        ("neighbours in pairs",
         [("for (int d = 128; d > 0; d /= 2)", "for (int d = 1; d < 256; d *= 2)"),
          ("if (t < d) s[t]", "if (t % (2 * d) == 0) s[t]")],
         "requests of shared memory are .*whole warps have done"),
        ("no barrier in the rounds",
         [("        if (t < d) s[t] += s[t + d];\n        __syncthreads();",
           "        if (t < d) s[t] += s[t + d];")],
         "put __syncthreads"),
        ("one number a thread", [("i < n; i += 256 * gridDim.x", "i < n; i += n")],
         "the elements of part add up to .*Does every element go into exactly one sum"),
        ("past the end", [("mine += v[i]", "mine += v[i] + v[i + 1]")], "past the end"),
        ("a run of elements a thread", [
            ("for (int i = blockIdx.x * 256 + t; i < n; i += 256 * gridDim.x) mine += v[i];",
             "int run = (n + 4095) / 4096, first = (blockIdx.x * 256 + t) * run;\n"
             "    for (int i = first; i < first + run && i < n; i++) mine += v[i];"),
        ], "global memory beyond the fewest"),
    ],
    "05b": [
        ("no fence before the ticket", [("__threadfence(); // my part", "// my part")],
         "__threadfence"),
        ("the ticket after the last one",
         [("== gridDim.x - 1", "== gridDim.x")], "Nobody wrote the result"),
        ("a sum from the first block",
         [("atomicAdd(ticket, 1) == gridDim.x - 1", "blockIdx.x == 0")], "nothing that orders"),
    ],
}  # fmt: skip
