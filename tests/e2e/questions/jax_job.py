"""jax_job.py JOB KEY=VALUE...: the first two jobs of tools/questions in JAX, with the allocator as it comes: it reserves three quarters of
the GPU.

Prints "losses ..." and "step SECONDS" at the end.  What it needs and how it ends is judged from outside.
"""
import sys
import time

import jax
import jax.numpy as jnp
from jax import lax


def conv(x, w, stride=1):
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def norm(x):
    return (x - x.mean((0, 1, 2))) / jnp.sqrt(x.var((0, 1, 2)) + 1e-5)


def network(key, widths, classes):
    """A plain CNN: two convolutions with norm and relu for each width, every second one halving the image."""
    sizes = [(3, widths[0])] + [pair for a, b in zip(widths, widths[1:] + widths[-1:]) for pair in ((a, a), (a, b))]
    keys = jax.random.split(key, len(sizes) + 1)
    w = [jax.random.normal(k, (3, 3, i, o)) * (2 / (9 * i)) ** 0.5 for k, (i, o) in zip(keys, sizes)]
    return w + [jax.random.normal(keys[-1], (sizes[-1][1], classes)) * 0.01]


def loss_of(w, x, y):
    x = x.astype(jnp.float32) / 255
    for i, c in enumerate(w[:-1]):
        x = jax.nn.relu(norm(conv(x, c, 2 if i % 2 else 1)))
    scores = jax.nn.log_softmax(x.mean((1, 2)) @ w[-1])
    return -jnp.take_along_axis(scores, y[:, None], 1).mean()


@jax.jit
def step(w, x, y):
    loss, g = jax.value_and_grad(loss_of)(w, x, y)
    return loss, [a - 0.01 * b for a, b in zip(w, g)]


def train(models, o):
    losses, times = [], []
    for i in range(o["steps"]):
        at = time.time()
        for k, (w, batch, size) in enumerate(models):
            key = jax.random.fold_in(jax.random.PRNGKey(i), k)
            x = jax.random.randint(key, (batch, size, size, 3), 0, 256, jnp.uint8)
            loss, models[k][0] = step(w, x, jax.random.randint(key, (batch,), 0, o["classes"]))
            losses.append(float(loss))
        times.append(time.time() - at)
    print("losses", *["%.6f" % l for l in losses])
    print("step %.4f" % min(times), flush=True)


if __name__ == "__main__":
    options = {k: int(v) for k, v in (word.split("=") for word in sys.argv[2:])}
    many = [[network(jax.random.PRNGKey(0), [64, 128, 256, 512], options["classes"]), options["batch"], options["size"]]]
    if sys.argv[1] == "two":
        many.append([network(jax.random.PRNGKey(1), [64, 128, 256], options["classes"]), options["batch2"], options["size2"]])
    train(many, options)
