#!/usr/bin/env python3
"""Draws docs/images/tiles.svg: what the mask answers for each tile of a 512-token window.

    python3 scripts/draw_tiles.py > docs/images/tiles.svg
"""
ROWS = KEYS = 1280
TILE_ROWS = TILE_KEYS = 64
WINDOW_LEFT = 511
CELL = 17
COLOURS = {"full": "#2f5d8a", "partial": "#9cc3e6", "hidden": "#f1efe8"}


def answer(row, key):
    """The tile's answer for causal && window(511), by the same interval arithmetic as score/."""
    behind_low = row * TILE_ROWS - (key + 1) * TILE_KEYS + 1
    behind_high = (row + 1) * TILE_ROWS - 1 - key * TILE_KEYS
    if behind_high < 0 or behind_low > WINDOW_LEFT:
        return "hidden"
    return "full" if behind_low >= 0 and behind_high <= WINDOW_LEFT else "partial"


def main():
    columns, rows = KEYS // TILE_KEYS, ROWS // TILE_ROWS
    left, top = 96, 58
    width, height = left + columns * CELL + 250, top + rows * CELL + 30
    count = {name: 0 for name in COLOURS}
    cells = []
    for r in range(rows):
        for c in range(columns):
            kind = answer(r, c)
            count[kind] += 1
            cells.append(f'<rect x="{left + c * CELL}" y="{top + r * CELL}" width="{CELL - 1}" '
                         f'height="{CELL - 1}" fill="{COLOURS[kind]}"/>')
    total = rows * columns
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
          'font-family="sans-serif" font-size="13" fill="#222">')
    print(f'<rect width="{width}" height="{height}" fill="white"/>')
    print(f'<text x="{left}" y="22" font-size="15" font-weight="bold">'
          'causal() &amp;&amp; window(511): one formula, read per tile</text>')
    print(f'<text x="{left}" y="46">keys 0 … {KEYS - 1}, tiles of {TILE_KEYS} →</text>')
    print(f'<text x="{left - 8}" y="{top + 14}" text-anchor="end">queries</text>')
    print(f'<text x="{left - 8}" y="{top + 31}" text-anchor="end">0 … {ROWS - 1} ↓</text>')
    print("\n".join(cells))
    texts = {"full": ("full", "no mask code runs"), "partial": ("partial", "the mask runs per element"),
             "hidden": ("hidden", "never loaded")}
    x, y = left + columns * CELL + 24, top + 40
    for name, (word, meaning) in texts.items():
        print(f'<rect x="{x}" y="{y - 13}" width="16" height="16" fill="{COLOURS[name]}" '
              'stroke="#888" stroke-width="0.5"/>')
        print(f'<text x="{x + 24}" y="{y}"><tspan font-weight="bold">{word}</tspan>, '
              f'{100 * count[name] / total:.0f} % of tiles</text>')
        print(f'<text x="{x + 24}" y="{y + 18}" fill="#555">{meaning}</text>')
        y += 58
    print("</svg>")


if __name__ == "__main__":
    main()
