"""Writes csrc/lowering/special_tables.h: Chebyshev coefficients of the special functions that have no closed form.

    python tools/make_special_tables.py > csrc/lowering/special_tables.h

Every table is the expansion of a smooth function over u in [-1, 1], from its definition in mpmath at 50 digits, cut
where coefficients fall below 1e-17 of the largest. What u is and how the pieces make the function: each table's line
here, and csrc/lowering/bessel.cc, airy.cc and normal_tails.cc.
"""

import mpmath as mp

mp.mp.dps = 50
NODES = 96


def coefficients(f):
    """Of sum c[k] T_k(u), from the values at Chebyshev nodes; without the tail that no double would notice."""
    angles = [mp.pi * (k + mp.mpf(1) / 2) / NODES for k in range(NODES)]
    values = [f(mp.cos(a)) for a in angles]
    found = []
    for j in range(NODES):
        total = mp.fsum(v * mp.cos(j * a) for v, a in zip(values, angles))
        found.append(total * (1 if j == 0 else 2) / NODES)
    largest = max(abs(c) for c in found)
    while abs(found[-1]) < largest * mp.mpf(10) ** -17:
        found.pop()
    assert len(found) < 60, "not smooth enough"
    return found


def hankel(order):
    """P, x Q: J = sqrt(2 / (pi x)) (P cos t - Q sin t), Y = ... (P sin t + Q cos t), t = x - order pi/2 - pi/4."""

    def p_and_q(x):
        t = x - order * mp.pi / 2 - mp.pi / 4
        j, y, scale = mp.besselj(order, x), mp.bessely(order, x), mp.sqrt(mp.pi * x / 2)
        return scale * (j * mp.cos(t) + y * mp.sin(t)), x * scale * (y * mp.cos(t) - j * mp.sin(t))

    return p_and_q


def at_square(top, f):
    """f over 0 < x <= top as a function of u = 2 (x / top)^2 - 1."""
    return lambda u: f(top * mp.sqrt((u + 1) / 2))


def at_inverse(bottom, f):
    """f over x >= bottom as a function of u = 2 bottom / x - 1."""
    return lambda u: f(2 * mp.mpf(bottom) / (u + 1))


def at_inverse_square(bottom, f):
    """f over x >= bottom as a function of u = 2 (bottom / x)^2 - 1."""
    return lambda u: f(bottom / mp.sqrt((u + 1) / 2))


def airy_zeta(z):
    return 2 * z ** (mp.mpf(3) / 2) / 3


def airy_z(zeta):
    return (3 * zeta / 2) ** (mp.mpf(2) / 3)


def airy_far(zeta):
    """Ai(x) = exp(-zeta) / (2 sqrt(pi) x^(1/4)) times this."""
    x = airy_z(zeta)
    return mp.airyai(x) * 2 * mp.sqrt(mp.pi) * x ** (mp.mpf(1) / 4) * mp.exp(zeta)


def airy_waves(zeta):
    """F and zeta G with Ai(-z) = (F sin t - G cos t) / (sqrt(pi) z^(1/4)), t = zeta + pi/4."""
    z, t = airy_z(zeta), zeta + mp.pi / 4
    scale = mp.sqrt(mp.pi) * z ** (mp.mpf(1) / 4)
    a, b = mp.airyai(-z) * scale, mp.airybi(-z) * scale  # F sin t - G cos t, F cos t + G sin t
    return a * mp.sin(t) + b * mp.cos(t), zeta * (b * mp.sin(t) - a * mp.cos(t))


def normal_quantile(log_p):
    """x with log(Phi(x)) = log_p, by Newton's method in the logarithm."""
    x = -mp.sqrt(-2 * log_p)
    for _ in range(100):
        phi = mp.erfc(-x / mp.sqrt(2)) / 2
        step = (mp.log(phi) - log_p) * phi / (mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi))
        x -= step
        if abs(step) < mp.mpf(10) ** -45 * (1 + abs(x)):
            break
    return x


def quantile_tail(low, high):
    """The distance of r from the quantile, r = sqrt(-2 log p), times r, as a function of u over 1/r."""

    def f(u):
        inverse = (mp.mpf(1) / low + mp.mpf(1) / high) / 2 + u * (mp.mpf(1) / low - mp.mpf(1) / high) / 2
        r = 1 / inverse
        return (r - mp.log(r) / r + normal_quantile(-r * r / 2)) * r

    return f


def erfcx_of_share(u):
    """exp(x^2) erfc(x) / t as a function of u = 2 t - 1, t = 4 / (4 + x), x >= 0."""
    t = (u + 1) / 2
    x = 4 / t - 4
    return mp.exp(x * x) * mp.erfc(x) / t


J0, J1 = hankel(0), hankel(1)
bessel_i, K, J, Y = mp.besseli, mp.besselk, mp.besselj, mp.bessely
CENTRE = mp.mpf(3) / 8
AIRY_FAR, AIRY_WAVES = airy_zeta(mp.mpf(2)), airy_zeta(mp.mpf(4))

TABLES = {
    # exp(-x) I(x): x <= 8 (I1 by x), u = x/4 - 1; x >= 8, times sqrt(x), u = 16/x - 1
    "I0Near": lambda u: mp.exp(-4 * (u + 1)) * bessel_i(0, 4 * (u + 1)),
    "I0Far": at_inverse(8, lambda x: mp.exp(-x) * bessel_i(0, x) * mp.sqrt(x)),
    "I1Near": lambda u: mp.exp(-4 * (u + 1)) * bessel_i(1, 4 * (u + 1)) / (4 * (u + 1)),
    "I1Far": at_inverse(8, lambda x: mp.exp(-x) * bessel_i(1, x) * mp.sqrt(x)),
    # K0 + log(x/2) I0 and x (K1 - log(x/2) I1): x <= 2, u = x^2/2 - 1; exp(x) sqrt(x) K: x >= 2, u = 4/x - 1
    "K0Near": at_square(2, lambda x: K(0, x) + mp.log(x / 2) * bessel_i(0, x)),
    "K0Far": at_inverse(2, lambda x: mp.exp(x) * mp.sqrt(x) * K(0, x)),
    "K1Near": at_square(2, lambda x: (K(1, x) - mp.log(x / 2) * bessel_i(1, x)) * x),
    "K1Far": at_inverse(2, lambda x: mp.exp(x) * mp.sqrt(x) * K(1, x)),
    # x <= 8, u = x^2/32 - 1: J0, J1 / x, Y0 - 2/pi log(x) J0, (Y1 - 2/pi (log(x) J1 - 1/x)) / x
    "J0Near": at_square(8, lambda x: J(0, x)),
    "J1Near": at_square(8, lambda x: J(1, x) / x),
    "Y0Near": at_square(8, lambda x: Y(0, x) - 2 / mp.pi * mp.log(x) * J(0, x)),
    "Y1Near": at_square(8, lambda x: (Y(1, x) - 2 / mp.pi * (mp.log(x) * J(1, x) - 1 / x)) / x),
    # x >= 8, u = 128/x^2 - 1: P and x Q of Hankel's expansions
    "P0": at_inverse_square(8, lambda x: J0(x)[0]),
    "Q0": at_inverse_square(8, lambda x: J0(x)[1]),
    "P1": at_inverse_square(8, lambda x: J1(x)[0]),
    "Q1": at_inverse_square(8, lambda x: J1(x)[1]),
    # Ai: -4 <= x <= 2, u = (x + 1) / 3; x >= 2, u = 2 zeta(2)/zeta - 1; x <= -4, u = 2 (zeta(4)/zeta)^2 - 1
    "AiryMiddle": lambda u: mp.airyai(3 * u - 1),
    "AiryFar": at_inverse(AIRY_FAR, airy_far),
    "AiryF": at_inverse_square(AIRY_WAVES, lambda zeta: airy_waves(zeta)[0]),
    "AiryG": at_inverse_square(AIRY_WAVES, lambda zeta: airy_waves(zeta)[1]),
    "Erfcx": erfcx_of_share,
    # Normal quantile, y = p - 1/2: |y| <= 3/8, (quantile / y), u = 2 (8y/3)^2 - 1; then r = sqrt(-2 log p) in [2, 8]
    # and [8, 64], see quantile_tail
    "QuantileCentre": at_square(CENTRE, lambda y: mp.sqrt(2) * mp.erfinv(2 * y) / y),
    "QuantileTail": quantile_tail(2, 8),
    "QuantileFarTail": quantile_tail(8, 64),
}

HEADER = """\
// csrc/lowering/special_tables.h - Chebyshev coefficients of special functions.
//
// Written by tools/make_special_tables.py, which says what each table expands; not edited by hand.
#pragma once

#include <iterator>

namespace dendrite::lowering::tables {

// clang-format off"""


def main():
    print(HEADER)
    for name, f in TABLES.items():
        numbers = coefficients(f)
        print(f"inline constexpr double k{name}[] = {{")
        for i in range(0, len(numbers), 4):
            print(
                "    " + ", ".join(mp.nstr(c, 19, min_fixed=0, max_fixed=0) for c in numbers[i : i + 4]) + ","
            )
        print("};")
    print("// clang-format on\n\n}  // namespace dendrite::lowering::tables")


if __name__ == "__main__":
    main()
