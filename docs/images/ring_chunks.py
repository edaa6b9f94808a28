#!/usr/bin/env python3
"""Draws docs/images/ring_chunks.svg: one loop of a ring all_reduce of four ranks, hop by hop.

Each row is a rank, each column a hop; a cell shows the chunk that the rank holds a partial sum of
and which ranks' terms are in it. Usage: ring_chunks.py > ring_chunks.svg
"""

RANKS = 4
COLORS = ["#1b6ca8", "#b3541e", "#3a7d44", "#7a3e9d"]
CELL_W, CELL_H, LEFT, TOP = 150, 52, 70, 66


def main():
    hops = RANKS
    width = LEFT + CELL_W * hops + 20
    height = TOP + CELL_H * RANKS + 60
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="24" font-size="15" fill="#222">'
        "One loop of a ring all_reduce, ring 0-1-2-3: what each rank adds at each hop</text>",
    ]
    for hop in range(hops):
        x = LEFT + hop * CELL_W + CELL_W / 2 - 5
        name = "send own" if hop == 0 else f"hop {hop}: add own"
        out.append(f'<text x="{x}" y="{TOP - 12}" text-anchor="middle" fill="#444">{name}</text>')
    for rank in range(RANKS):
        y = TOP + rank * CELL_H
        out.append(f'<text x="10" y="{y + 28}" fill="#222">rank {rank}</text>')
        for hop in range(hops):
            # A rank starts with the chunk after which the ring ends just before it.
            chunk = (rank - 1 - hop) % RANKS
            terms = [(chunk + 1 + k) % RANKS for k in range(hop + 1)]
            x = LEFT + hop * CELL_W
            text = "x" + str(terms[0])
            for term in terms[1:]:
                text = f"({text}+x{term})" if term != terms[-1] else f"{text}+x{term}"
            done = hop == hops - 1
            out.append(
                f'<rect x="{x}" y="{y}" width="{CELL_W - 10}" height="{CELL_H - 10}" rx="5" '
                f'fill="{COLORS[chunk]}" fill-opacity="{0.95 if done else 0.16}" '
                f'stroke="{COLORS[chunk]}"/>')
            ink = "#ffffff" if done else "#111111"
            out.append(f'<text x="{x + 8}" y="{y + 17}" fill="{ink}">chunk {chunk}</text>')
            out.append(f'<text x="{x + 8}" y="{y + 35}" fill="{ink}">{text}</text>')
    y = TOP + RANKS * CELL_H + 22
    out.append(
        f'<text x="{LEFT}" y="{y}" fill="#444">Each partial sum goes to the next rank, so chunk c '
        "is folded x[c+1], x[c+2], ..., x[c].</text>")
    out.append(
        f'<text x="{LEFT}" y="{y + 18}" fill="#444">The finished chunk (filled) is then copied '
        "round the ring unchanged: all ranks get the same bits.</text>")
    out.append("</svg>")
    print("\n".join(out))


if __name__ == "__main__":
    main()
