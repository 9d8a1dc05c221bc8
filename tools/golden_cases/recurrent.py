"""Golden cases of losses, the LSTM, optimisers, clipping, and of the kernels that draw numbers.

The random numbers are written out again here (Philox4x32-10 and the table-free permutation),
independent of the C code.
"""

import numpy
import torch
import torch.nn.functional as F

from cnn import differentiate, numbered
from golden_registry import golden, integers, uniform

MASK32 = 0xFFFFFFFF
PURPOSE_DATA_ORDER, PURPOSE_AUGMENTATION, PURPOSE_DROPOUT = 1, 2, 5


def float64(array, **options):
    return torch.tensor(array, dtype=torch.float64, **options)


# --- random numbers -----------------------------------------------------------------------------


def philox(seed, episode, purpose, step, draw):
    """The four 32-bit words of one draw."""
    counter = [episode & MASK32, purpose, step & MASK32, draw & MASK32]
    keys = [seed & MASK32, seed >> 32]
    for _ in range(10):
        product0, product1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (product1 >> 32) ^ counter[1] ^ keys[0],
            product1 & MASK32,
            (product0 >> 32) ^ counter[3] ^ keys[1],
            product0 & MASK32,
        ]
        keys = [(keys[0] + 0x9E3779B9) & MASK32, (keys[1] + 0xBB67AE85) & MASK32]
    return counter


def permute(index, count, key):
    """Element `index` of the permutation of range(count) that belongs to the key."""
    half = 1
    while half < 16 and (1 << (2 * half)) < count:
        half += 1
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for round_number in range(6):
            mixed = (right + key[round_number & 3]) * 0x9E3779B1 + round_number * 0x85EBCA6B
            mixed &= MASK32
            mixed = ((mixed ^ (mixed >> 15)) * 0xC2B2AE35) & MASK32
            mixed ^= mixed >> 13
            left, right = right, left ^ (mixed & mask)
        index = (left << half) | right
        if index < count:
            return index


# --- losses and tables --------------------------------------------------------------------------


@golden("cross_entropy")
def cross_entropy(rng):
    cases = []
    for E, N, K, size, weighted in [(1, 1, 1, 1, False), (2, 5, 10, 3, True), (3, 7, 3, 1, False),
                                    (1, 65, 31, 5, True), (2, 4, 10, 2000, False)]:
        logits = uniform(rng, E, N, K, low=-size, high=size)
        labels = integers(rng, E, N, low=-1, high=K)
        labels[0, 0] = K - 1
        d_loss = uniform(rng, E) if weighted else numpy.ones(E, numpy.float32)
        x = float64(logits, requires_grad=True)
        losses, n_correct, n_invalid = [], [], []
        for e in range(E):
            valid = (labels[e] >= 0) & (labels[e] < K)
            kept, named = x[e][torch.tensor(valid)], torch.tensor(labels[e][valid]).long()
            losses.append(F.cross_entropy(kept, named, reduction="sum") / N)
            n_correct.append((kept.argmax(1) == named).sum().item())
            n_invalid.append((~valid).sum())
        loss = torch.stack(losses)
        loss.backward(float64(d_loss))
        case = {"logits": logits, "labels": labels, "loss": loss.detach().numpy(),
                "n_correct": numpy.array(n_correct, numpy.int32),
                "n_invalid": numpy.array(n_invalid, numpy.int32), "d_logits": x.grad.numpy()}
        cases.append({**case, "d_loss": d_loss} if weighted else case)
    return numbered(cases)


@golden("embedding")
def embedding(rng):
    cases = []
    for E, V, D, N in [(1, 1, 1, 1), (2, 5, 3, 7), (3, 4, 65, 9), (1, 3, 8, 257)]:
        ids = integers(rng, E, N, low=-1, high=V)
        n_invalid = ((ids < 0) | (ids >= V)).sum(1).astype(numpy.int32)
        environments = iter(range(E))

        def look_up(table, V=V, ids=ids, environments=environments):
            # an invalid id reads a row of zeros behind the table
            rows = numpy.where((ids >= 0) & (ids < V), ids, V)[next(environments)]
            padded = torch.cat([table, torch.zeros(1, table.shape[1], dtype=table.dtype)])
            return F.embedding(torch.tensor(rows), padded)

        case = differentiate({"table": uniform(rng, E, V, D)}, uniform(rng, E, N, D), look_up, E)
        cases.append({**case, "ids": ids, "n_invalid": n_invalid})
    return numbered(cases)


# --- LSTM ---------------------------------------------------------------------------------------

LSTM_WEIGHTS = {"weight_input": "weight_ih_l0", "weight_recurrent": "weight_hh_l0",
                "bias_input": "bias_ih_l0", "bias_recurrent": "bias_hh_l0"}


def unroll(tensors, reset):
    """torch.nn.LSTM of one environment, step by step; a row whose reset is 1 starts from zeros."""
    T, N, I = tensors["x"].shape
    D = tensors["weight_recurrent"].shape[1]
    layer = torch.nn.LSTM(I, D).double()
    parameters = {full: tensors[name] for name, full in LSTM_WEIGHTS.items()}
    zeros = torch.zeros(N, D, dtype=torch.float64)
    h, c = tensors.get("h_start", zeros), tensors.get("c_start", zeros)
    hs, cs = [], []
    for t in range(T):
        keep = 1.0 - float64(reset[t])[:, None] if reset is not None else 1.0
        state = ((h * keep)[None], (c * keep)[None])
        _, (h, c) = torch.func.functional_call(layer, parameters, (tensors["x"][t][None], state))
        h, c = h[0], c[0]
        hs.append(h)
        cs.append(c)
    return torch.stack(hs), torch.stack(cs)


def lstm_inputs(rng, E, T, N, I, D, starts):
    inputs = {
        "x": uniform(rng, E, T, N, I),
        "weight_input": uniform(rng, E, 4 * D, I, low=-0.7, high=0.7),
        "weight_recurrent": uniform(rng, E, 4 * D, D, low=-0.7, high=0.7),
        "bias_input": uniform(rng, E, 4 * D, low=-0.5, high=0.5),
        "bias_recurrent": uniform(rng, E, 4 * D, low=-0.5, high=0.5),
    }
    if starts:
        inputs["h_start"] = uniform(rng, E, N, D)
        inputs["c_start"] = uniform(rng, E, N, D)
    return inputs


@golden("lstm")
def lstm(rng):
    cases = []
    for E, T, N, I, D, resets, starts in [
        (1, 1, 1, 1, 1, False, False),
        (2, 3, 2, 3, 5, True, True),
        (1, 4, 3, 2, 17, True, False),
        (3, 2, 1, 4, 3, False, True),
    ]:
        inputs = lstm_inputs(rng, E, T, N, I, D, starts)
        reset = rng.integers(0, 2, (E, T, N), dtype=numpy.uint8) if resets else None
        environments, cells = iter(range(E)), []

        def run(reset=reset, environments=environments, cells=cells, **tensors):
            y, c = unroll(tensors, None if reset is None else reset[next(environments)])
            cells.append(c.detach().numpy())
            return y

        case = differentiate(inputs, uniform(rng, E, T, N, D), run, E)
        case["c"] = numpy.stack(cells)
        cases.append({**case, "reset": reset} if resets else case)
    return numbered(cases)


@golden("lstm_unrolled")
def lstm_unrolled(rng):
    """30 steps with resets, starts given, loss = mean squared distance to a target."""
    E, T, N, I, D = 2, 30, 3, 5, 7
    inputs = lstm_inputs(rng, E, T, N, I, D, True)
    target = uniform(rng, E, T, N, D)
    reset = (rng.uniform(size=(E, T, N)) < 0.1).astype(numpy.uint8)
    tensors = {name: float64(array, requires_grad=True) for name, array in inputs.items()}
    outputs, losses = [], []
    for e in range(E):
        y, _ = unroll({name: tensor[e] for name, tensor in tensors.items()}, reset[e])
        losses.append(F.mse_loss(y, float64(target[e])))
        outputs.append(y.detach().numpy())
    torch.stack(losses).sum().backward()
    gradients = {"d_" + name: tensor.grad.numpy() for name, tensor in tensors.items()}
    return {**inputs, "target": target, "reset": reset, "y": numpy.stack(outputs),
            "loss": numpy.array([loss.item() for loss in losses]), **gradients}


# --- optimisers and clipping --------------------------------------------------------------------


@golden("optimiser")
def optimiser(rng):
    cases = []
    for E, P in [(1, 1), (3, 17)]:
        parameter, gradient = uniform(rng, E, P), uniform(rng, 5, E, P)
        rate = uniform(rng, E, low=0.01, high=0.2)
        momentum_rate = uniform(rng, E, low=0, high=0.95)
        weight_decay = uniform(rng, E, low=0, high=0.1)
        after, buffers = [], []
        for e in range(E):
            p = torch.nn.Parameter(float64(parameter[e]))
            method = torch.optim.SGD([p], float(rate[e]), momentum=float(momentum_rate[e]),
                                     weight_decay=float(weight_decay[e]))
            for g in gradient[:, e]:
                p.grad = float64(g)
                method.step()
            after.append(p.detach().numpy())
            buffers.append(method.state[p]["momentum_buffer"].numpy())
        cases.append({"parameter": parameter, "gradient": gradient, "rate": rate,
                      "momentum_rate": momentum_rate, "weight_decay": weight_decay,
                      "momentum": numpy.zeros((E, P), numpy.float32),
                      "parameter_after": numpy.stack(after),
                      "momentum_after": numpy.stack(buffers)})
    for E, P in [(1, 1), (3, 17)]:
        parameter, gradient = uniform(rng, E, P), uniform(rng, 5, E, P)
        rate = uniform(rng, E, low=0.001, high=0.1)
        after, first, second = [], [], []
        # the options as the float32 values that the kernel is given
        betas = (float(numpy.float32(0.9)), float(numpy.float32(0.999)))
        for e in range(E):
            p = torch.nn.Parameter(float64(parameter[e]))
            method = torch.optim.Adam([p], float(rate[e]), betas=betas,
                                      eps=float(numpy.float32(1e-8)))
            for g in gradient[:, e]:
                p.grad = float64(g)
                method.step()
            after.append(p.detach().numpy())
            first.append(method.state[p]["exp_avg"].numpy())
            second.append(method.state[p]["exp_avg_sq"].numpy())
        zeros = numpy.zeros((E, P), numpy.float32)
        cases.append({"parameter": parameter, "gradient": gradient, "rate": rate, "moment1": zeros,
                      "moment2": zeros, "n_steps": numpy.zeros(E, numpy.int32),
                      "n_steps_after": numpy.full(E, 5, numpy.int32),
                      "parameter_after": numpy.stack(after), "moment1_after": numpy.stack(first),
                      "moment2_after": numpy.stack(second)})
    return numbered(cases)


@golden("slab_norms")
def slab_norms(rng):
    """Spans and groups as in tests/kernels/ops/slab_norms_test.c: (offset, length, group)."""
    layouts = [
        (1, 1, [(0, 1, 0)], [[0.5]]),
        (2, 40, [(0, 7, 0), (8, 1, 1), (9, 17, 0), (26, 9, 1), (35, 5, 2)],
         [[0.5, 2.0, 0.1], [100.0, -1.0, 0.0]]),
    ]
    cases = []
    for E, P, spans, max_norm in layouts:
        slab = uniform(rng, E, P, low=-2, high=2)
        after, norms = slab.astype(numpy.float64), numpy.zeros((E, len(max_norm[0])))
        for e in range(E):
            for g, limit in enumerate(max_norm[e]):
                members = [(o, n) for o, n, group in spans if group == g]
                parameters = [torch.nn.Parameter(float64(numpy.zeros(n))) for _, n in members]
                for p, (o, n) in zip(parameters, members):
                    p.grad = float64(slab[e, o:o + n])
                bound = float(numpy.float32(limit)) if limit > 0 else float("inf")
                norms[e, g] = torch.nn.utils.clip_grad_norm_(parameters, bound).item()
                for p, (o, n) in zip(parameters, members):
                    after[e, o:o + n] = p.grad.numpy()
        cases.append({"slab": slab, "max_norm": numpy.array(max_norm, numpy.float32),
                      "slab_after": after, "group_norm": norms})
    return numbered(cases)


# --- draws --------------------------------------------------------------------------------------


@golden("dropout")
def dropout(rng):
    """Seed and layer as in tests/kernels/ops/dropout_test.c."""
    cases = []
    for E, n_elements, layer, probability in [(1, 1, 0, 0.5), (2, 35, 3, 0.3), (3, 9, 255, 0.0)]:
        seed = 0x123456789ABCDEF0 + layer
        episode, step = integers(rng, E, low=0, high=1000), integers(rng, 1, low=0, high=1000)
        x = uniform(rng, E, n_elements, low=0.5, high=1.5)
        p = float(numpy.float32(probability))
        y = numpy.zeros((E, n_elements))
        for e in range(E):
            for j in range(n_elements):
                words = philox(seed, int(episode[e]), PURPOSE_DROPOUT, int(step[0]),
                               (layer << 24) ^ (j // 4))
                kept = (words[j % 4] >> 8) * 2.0**-24 >= p
                y[e, j] = x[e, j] / (1.0 - p) if kept else 0.0
        cases.append({"episode": episode, "step": step, "x": x, "y": y})
    return numbered(cases)


def gather_seed(case):
    return 0xFEDCBA9876543210 + case


@golden("gather")
def gather(rng):
    """Seeds, sizes, mean and inv_std as in tests/kernels/ops/gather_test.c."""
    cases = []
    for E, N, n_samples in [(1, 1, 1), (2, 7, 17), (3, 65, 100), (1, 5, 60000)]:
        episode, step = integers(rng, E, low=0, high=1000), integers(rng, 1, low=0, high=1000)
        index = numpy.zeros((E, N), numpy.int32)
        for e in range(E):
            for n in range(N):
                position = int(step[0]) * N + n
                key = philox(gather_seed(len(cases)), int(episode[e]), PURPOSE_DATA_ORDER,
                             position // n_samples, 0)
                index[e, n] = permute(position % n_samples, n_samples, key)
        cases.append({"episode": episode, "step": step, "index": index})
    mean = numpy.array([0.5, 0.25, 0.75, 0.125], numpy.float32).astype(numpy.float64)
    inv_std = numpy.array([2.0, 4.5, 3.25, 1.0], numpy.float32).astype(numpy.float64)
    for E, N, M, C, H, W, pad, flip in [(1, 1, 1, 1, 1, 1, 0, 0), (2, 5, 7, 3, 6, 5, 2, 1),
                                        (1, 17, 3, 1, 4, 4, 4, 0), (2, 3, 4, 4, 3, 7, 0, 1)]:
        images = rng.integers(0, 256, (M, C, H, W), dtype=numpy.uint8)
        index = integers(rng, E, N, low=0, high=M - 1)
        episode, step = integers(rng, E, low=0, high=1000), integers(rng, 1, low=0, high=1000)
        y = torch.zeros(E, N, C, H, W, dtype=torch.float64)
        for e in range(E):
            for n in range(N):
                words = philox(gather_seed(len(cases)), int(episode[e]), PURPOSE_AUGMENTATION,
                               int(step[0]), n)
                row, column = ((words[i] * (2 * pad + 1)) >> 32 for i in range(2))
                image = F.pad(float64(images[index[e, n]]), (pad, pad, pad, pad))
                image = image[:, row:row + H, column:column + W]
                if flip and words[2] >> 31:
                    image = image.flip(2)
                for c in range(C):
                    y[e, n, c] = (image[c] / 255.0 - mean[c]) * inv_std[c]
        cases.append({"images": images, "index": index, "episode": episode, "step": step,
                      "y": y.numpy()})
    return numbered(cases)
