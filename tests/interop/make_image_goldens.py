"""Writes the small images of tests/unit/formats/golden and prints what Pillow makes of them.

Each printed line is a row of the table in tests/unit/formats/image/image_test.cpp:
{file, height, width, crc32 of the RGB pixels, crc32 of the grey pixels}.
"""
import pathlib
import struct
import sys
import zlib

import numpy
from PIL import Image

HEIGHT, WIDTH = 13, 19


def picture():
    rng = numpy.random.default_rng(7)
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH]
    smooth = numpy.stack([x * 13, y * 19, (x + y) * 8], axis=-1)
    return (smooth + rng.integers(0, 24, smooth.shape)).clip(0, 255).astype(numpy.uint8)


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(path, pixels, depth, colour, interlaced=False, palette=None):
    """Writes variants of PNG that Pillow reads but does not write."""
    height, width = pixels.shape[:2]

    def rows(part):
        lines = []
        for row in part:
            if depth == 16:
                raw = row.astype(">u2").tobytes()
            elif depth == 8:
                raw = row.astype("u1").tobytes()
            else:
                bits = numpy.unpackbits(row.reshape(-1, 1).astype("u1"), axis=1)[:, 8 - depth :]
                raw = numpy.packbits(bits.reshape(-1)).tobytes()
            lines.append(b"\0" + raw)
        return b"".join(lines)

    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    parts = [pixels[t::v, l::h] for t, l, v, h in passes] if interlaced else [pixels]
    data = b"".join(rows(part) for part in parts if part.size)
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced))
    body = chunk(b"IHDR", header)
    if palette is not None:
        body += chunk(b"PLTE", palette.astype("u1").tobytes())
    body += chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)


def write_all(folder):
    rgb = picture()
    image = Image.fromarray(rgb)
    grey = image.convert("L")
    for name, sampling in (("444", 0), ("422", 1), ("420", 2)):
        image.save(folder / f"rgb_{name}.jpg", quality=85, subsampling=sampling)
    image.save(folder / "progressive.jpg", quality=70, progressive=True)
    grey.save(folder / "grey.jpg", quality=85)
    image.convert("CMYK").save(folder / "cmyk.jpg", quality=90)
    image.save(folder / "rgb.png")
    image.rotate(90, expand=True).save(folder / "tall.png")
    image.quantize(16).save(folder / "palette.png")
    alpha = Image.fromarray((255 - rgb[:, :, 0]).astype(numpy.uint8))
    Image.merge("RGBA", (*image.split(), alpha)).save(folder / "rgba.png")
    Image.merge("LA", (grey, alpha)).save(folder / "grey_alpha.png")
    grey.convert("1").save(folder / "bit.png")
    png(folder / "grey2.png", numpy.asarray(grey) >> 6, 2, 0)
    png(folder / "grey4.png", numpy.asarray(grey) >> 4, 4, 0)
    png(folder / "rgb16.png", rgb.astype("u2") * 257 - 90 * (rgb > 0), 16, 2)
    # Pillow clips 16-bit grey at 255, and keeps the high byte of 16-bit grey with alpha.
    png(folder / "grey16.png", numpy.asarray(grey).astype("u2") * 3 - 60, 16, 0)
    png(folder / "grey16_interlaced.png", numpy.asarray(grey).astype("u2") * 3 - 60, 16, 0, interlaced=True)
    both = numpy.stack([numpy.asarray(grey).astype("u2") * 257 - 90, rgb[:, :, 0].astype("u2") * 257], axis=-1)
    png(folder / "grey16_alpha.png", both, 16, 4)
    png(folder / "interlaced.png", rgb, 8, 2, interlaced=True)
    palette = numpy.arange(48).reshape(16, 3) * 5
    png(folder / "palette4.png", numpy.asarray(grey) >> 4, 4, 3, palette=palette)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    write_all(folder)
    for path in sorted(folder.iterdir()):
        image = Image.open(path)
        crcs = [zlib.crc32(image.convert(mode).tobytes()) for mode in ("RGB", "L")]
        print(f'    {{"{path.name}", {image.height}, {image.width}, {crcs[0]:#010x}, {crcs[1]:#010x}}},')


main()
