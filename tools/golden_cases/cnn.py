"""Golden cases of the kernels of the CNN path.

The environment axis is a Python loop over independent PyTorch calls.
"""

import numpy
import torch
import torch.nn.functional as F

from golden_registry import golden, uniform


def differentiate(inputs, cotangent, function, environments):
    """Run `function` per environment in float64 and pull the cotangent back.

    inputs: {name: float32 array [E, ...]}; function(**{name: tensor}) gives y of one environment.
    Returns inputs, d_y, y and d_<name> for every input, under their plain names.
    """
    results = {name: [] for name in ["y"] + ["d_" + name for name in inputs]}
    for e in range(environments):
        tensors = {
            name: torch.tensor(array[e], dtype=torch.float64, requires_grad=True)
            for name, array in inputs.items()
        }
        y = function(**tensors)
        y.backward(torch.tensor(cotangent[e], dtype=torch.float64))
        results["y"].append(y.detach().numpy())
        for name, tensor in tensors.items():
            results["d_" + name].append(tensor.grad.numpy())
    stacked = {name: numpy.stack(values) for name, values in results.items()}
    return {**inputs, "d_y": cotangent, **stacked}


def numbered(cases):
    """[{name: array}, ...] as {"case<i>.<name>": array}."""
    return {
        f"case{i}.{name}": array for i, case in enumerate(cases) for name, array in case.items()
    }


@golden("elementwise")
def elementwise(rng):
    cases = []
    for shape in [(1, 1, 1), (2, 3, 5), (3, 7, 31)]:
        a, b, x = (uniform(rng, *shape, low=-3, high=3) for _ in range(3))
        # halfway between two bf16 values, to both sides: nearest even decides
        x.flat[0] = 1.0 + 2.0**-8
        if x.size > 1:
            x.flat[1] = 1.0 + 3 * 2.0**-8
        rounded = torch.tensor(x).to(torch.bfloat16).to(torch.float32).numpy()
        y = a.astype(numpy.float64) + b.astype(numpy.float64)
        cases.append({"a": a, "b": b, "x": x, "y": y, "x_rounded": rounded})
    return numbered(cases)


@golden("matmul")
def matmul(rng):
    cases = []
    for E, M, N, K, trans_a, trans_b, beta in [
        (1, 1, 1, 1, 0, 0, 0.0),
        (2, 3, 5, 7, 0, 1, 0.0),
        (1, 33, 31, 17, 1, 0, 0.0),
        (3, 5, 8, 31, 1, 1, 0.5),
    ]:
        a = uniform(rng, E, K, M) if trans_a else uniform(rng, E, M, K)
        b = uniform(rng, E, N, K) if trans_b else uniform(rng, E, K, N)
        c = uniform(rng, E, M, N)

        def multiply(a, b, trans_a=trans_a, trans_b=trans_b):
            return torch.matmul(a.mT if trans_a else a, b.mT if trans_b else b)

        case = differentiate({"a": a, "b": b}, uniform(rng, E, M, N), multiply, E)
        cases.append({**case, "c": c, "c_after": case["y"] + beta * c.astype(numpy.float64)})
    return numbered(cases)


def apply_linear(x, weight, bias=None):
    return F.linear(x, weight, bias)


@golden("linear")
def linear(rng):
    cases = []
    for E, N, I, O, bias in [(1, 1, 1, 1, True), (2, 5, 3, 7, True), (3, 4, 31, 5, False),
                             (1, 17, 9, 33, True)]:
        inputs = {"x": uniform(rng, E, N, I), "weight": uniform(rng, E, O, I)}
        if bias:
            inputs["bias"] = uniform(rng, E, O)
        cases.append(differentiate(inputs, uniform(rng, E, N, O), apply_linear, E))
    return numbered(cases)


@golden("conv2d")
def conv2d(rng):
    cases = []
    for E, N, I, O, H, W, K, bias in [
        (1, 1, 1, 1, 1, 1, 1, True),
        (2, 2, 3, 8, 8, 8, 3, True),
        (3, 1, 5, 3, 5, 7, 5, False),
        (2, 3, 3, 5, 4, 3, 1, True),
        (1, 2, 2, 3, 2, 5, 7, True),
    ]:
        inputs = {"x": uniform(rng, E, N, I, H, W), "weight": uniform(rng, E, O, I, K, K)}
        if bias:
            inputs["bias"] = uniform(rng, E, O)

        def convolve(x, weight, bias=None, pad=K // 2):
            return F.conv2d(x, weight, bias, padding=pad)

        cases.append(differentiate(inputs, uniform(rng, E, N, O, H, W), convolve, E))
    return numbered(cases)


@golden("depthwise")
def depthwise(rng):
    cases = []
    for E, N, C, H, W, K in [(1, 1, 1, 1, 1, 1), (2, 2, 5, 8, 8, 3), (3, 1, 3, 3, 7, 5),
                             (1, 2, 8, 5, 4, 3)]:
        inputs = {"x": uniform(rng, E, N, C, H, W), "weight": uniform(rng, E, C, K, K)}

        def convolve(x, weight, pad=K // 2, groups=C):
            return F.conv2d(x, weight.unsqueeze(1), padding=pad, groups=groups)

        cases.append(differentiate(inputs, uniform(rng, E, N, C, H, W), convolve, E))
    return numbered(cases)


@golden("batchnorm")
def batchnorm(rng):
    epsilon, momentum = 1e-5, 0.1
    cases = []
    for E, N, C, H, W in [(1, 2, 1, 1, 1), (2, 4, 3, 5, 3), (3, 7, 5, 1, 1), (1, 3, 8, 7, 4)]:
        running_mean = uniform(rng, E, C)
        running_variance = uniform(rng, E, C, low=0.5, high=2)
        inputs = {
            "x": uniform(rng, E, N, C, H, W, low=-2, high=3),
            "gamma": uniform(rng, E, C, low=-1.5, high=1.5),
            "beta": uniform(rng, E, C),
        }
        layers = []

        def normalise(x, gamma, beta):
            e = len(layers)
            layer = torch.nn.BatchNorm2d(x.shape[1], eps=epsilon, momentum=momentum).double()
            layer.running_mean.copy_(torch.tensor(running_mean[e]))
            layer.running_var.copy_(torch.tensor(running_variance[e]))
            layers.append(layer)
            return torch.func.functional_call(layer, {"weight": gamma, "bias": beta}, (x,))

        case = differentiate(inputs, uniform(rng, E, N, C, H, W), normalise, E)
        x64 = torch.tensor(inputs["x"], dtype=torch.float64)
        case["mean"] = x64.mean(dim=(1, 3, 4)).numpy()
        case["inv_std"] = (x64.var(dim=(1, 3, 4), unbiased=False) + epsilon).rsqrt().numpy()
        case["running_mean"] = running_mean
        case["running_variance"] = running_variance
        case["running_mean_after"] = numpy.stack([l.running_mean.numpy() for l in layers])
        case["running_variance_after"] = numpy.stack([l.running_var.numpy() for l in layers])
        evaluated = []
        for e, layer in enumerate(layers):
            layer.eval()
            parameters = {name: torch.tensor(inputs[short][e], dtype=torch.float64)
                          for name, short in [("weight", "gamma"), ("bias", "beta")]}
            evaluated.append(
                torch.func.functional_call(layer, parameters, (x64[e],)).detach().numpy())
        case["y_eval"] = numpy.stack(evaluated)
        cases.append(case)
    return numbered(cases)


@golden("groupnorm")
def groupnorm(rng):
    epsilon = 1e-5
    cases = []
    for E, N, C, H, W, groups in [(1, 1, 1, 2, 1, 1), (2, 3, 6, 5, 3, 3), (3, 2, 5, 3, 3, 1),
                                  (1, 2, 8, 4, 7, 8)]:
        inputs = {
            "x": uniform(rng, E, N, C, H, W, low=-2, high=3),
            "gamma": uniform(rng, E, C, low=-1.5, high=1.5),
            "beta": uniform(rng, E, C),
        }

        def normalise(x, gamma, beta, groups=groups):
            return F.group_norm(x, groups, gamma, beta, epsilon)

        case = differentiate(inputs, uniform(rng, E, N, C, H, W), normalise, E)
        x64 = torch.tensor(inputs["x"], dtype=torch.float64).reshape(E, N, groups, -1)
        case["mean"] = x64.mean(dim=3).numpy()
        case["inv_std"] = (x64.var(dim=3, unbiased=False) + epsilon).rsqrt().numpy()
        cases.append(case)
    return numbered(cases)


@golden("layernorm")
def layernorm(rng):
    epsilon = 1e-5
    cases = []
    for E, N, D in [(1, 1, 2), (2, 5, 7), (3, 3, 33), (1, 9, 129)]:
        inputs = {
            "x": uniform(rng, E, N, D, low=-2, high=3),
            "gamma": uniform(rng, E, D, low=-1.5, high=1.5),
            "beta": uniform(rng, E, D),
        }

        def normalise(x, gamma, beta, D=D):
            return F.layer_norm(x, (D,), gamma, beta, epsilon)

        case = differentiate(inputs, uniform(rng, E, N, D), normalise, E)
        x64 = torch.tensor(inputs["x"], dtype=torch.float64)
        case["mean"] = x64.mean(dim=2).numpy()
        case["inv_std"] = (x64.var(dim=2, unbiased=False) + epsilon).rsqrt().numpy()
        cases.append(case)
    return numbered(cases)


@golden("activation")
def activation(rng):
    cases = []
    for function in [torch.relu, torch.tanh, torch.sigmoid]:
        for shape in [(1, 1, 1), (2, 3, 31)]:
            inputs = {"x": uniform(rng, *shape, low=-4, high=4)}
            inputs["x"].flat[0] = 0.0  # the kink: its gradient is 0
            cases.append(differentiate(inputs, uniform(rng, *shape), function, shape[0]))
    return numbered(cases)


@golden("pool")
def pool(rng):
    kinds = [
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.avg_pool2d(x, 2),
        lambda x: x.mean(dim=(2, 3)),
    ]
    cases = []
    for kind, function in enumerate(kinds):
        for E, N, C, H, W in [(1, 1, 1, 2, 2), (2, 3, 5, 7, 4)]:
            inputs = {"x": uniform(rng, E, N, C, H, W)}
            shape = (E, N, C) if kind == 2 else (E, N, C, H // 2, W // 2)
            cases.append(differentiate(inputs, uniform(rng, *shape), function, E))
    return numbered(cases)
