"""Whole-network goldens: a small CNN with batch norm, trained ten steps with PyTorch."""

import numpy
import torch
import torch.nn.functional as F

from golden_registry import golden, integers, uniform

STEPS, RATE, MOMENTUM, DECAY = 10, 0.05, 0.9, 5e-4


def host_parameters(rng, n_in, base, kernel, n_blocks, n_classes):
    """Initial values as the host has them, but with gammas of both signs."""
    parameters, running = {}, {}
    for block in range(n_blocks):
        n_out = base << block
        bound = 1.0 / numpy.sqrt(n_in * kernel * kernel)
        parameters[f"block{block}.conv.weight"] = uniform(rng, n_out, n_in, kernel, kernel, low=-bound, high=bound)
        parameters[f"block{block}.norm.gamma"] = uniform(rng, n_out, low=-1.5, high=1.5)
        parameters[f"block{block}.norm.beta"] = uniform(rng, n_out, low=-0.5, high=0.5)
        running[f"block{block}.norm.running_mean"] = numpy.zeros(n_out, numpy.float32)
        running[f"block{block}.norm.running_variance"] = numpy.ones(n_out, numpy.float32)
        n_in = n_out
    bound = 1.0 / numpy.sqrt(n_in)
    parameters["head.weight"] = uniform(rng, n_classes, n_in, low=-bound, high=bound)
    parameters["head.bias"] = uniform(rng, n_classes, low=-bound, high=bound)
    return parameters, running


def forward(x, parameters, running, n_blocks, n_pools, training):
    for block in range(n_blocks):
        weight = parameters[f"block{block}.conv.weight"]
        x = F.conv2d(x, weight, padding=weight.shape[2] // 2)
        x = F.batch_norm(x, running[f"block{block}.norm.running_mean"], running[f"block{block}.norm.running_variance"],
                         parameters[f"block{block}.norm.gamma"], parameters[f"block{block}.norm.beta"],
                         training=training, momentum=0.1, eps=1e-5)
        x = F.relu(x)
        if block < n_pools:
            x = F.max_pool2d(x, 2)
    return F.linear(x.mean((2, 3)), parameters["head.weight"], parameters["head.bias"])


def train(rng, prefix, n_envs, n_rows, n_in, size, base, kernel, n_blocks, n_pools, n_classes):
    """Inputs, initial parameters, ten losses, the last gradients, and what is left at the end."""
    per_env = []
    for _ in range(n_envs):
        x = uniform(rng, n_rows, n_in, size, size)
        labels = integers(rng, n_rows, low=0, high=n_classes - 1)
        start, running_start = host_parameters(rng, n_in, base, kernel, n_blocks, n_classes)
        parameters = {k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in start.items()}
        running = {k: torch.tensor(v, dtype=torch.float64) for k, v in running_start.items()}
        update = torch.optim.SGD(parameters.values(), lr=RATE, momentum=MOMENTUM, weight_decay=DECAY)
        inputs, targets = torch.tensor(x, dtype=torch.float64), torch.tensor(labels, dtype=torch.int64)
        losses = []
        for _ in range(STEPS):
            update.zero_grad()
            loss = F.cross_entropy(forward(inputs, parameters, running, n_blocks, n_pools, True), targets)
            loss.backward()
            losses.append(loss.item())
            update.step()
        with torch.no_grad():
            evaluated = F.cross_entropy(forward(inputs, parameters, running, n_blocks, n_pools, False), targets)
        arrays = {"x": x, "labels": labels, "losses": numpy.array(losses, numpy.float32),
                  "evaluated": numpy.array([evaluated.item()], numpy.float32)}
        arrays.update(start)
        for name, value in parameters.items():
            arrays["gradient." + name] = value.grad.numpy().astype(numpy.float32)
            arrays["after." + name] = value.detach().numpy().astype(numpy.float32)
        for name, value in running.items():
            arrays["after." + name] = value.numpy().astype(numpy.float32)
        per_env.append(arrays)
    return {f"{prefix}.{name}": numpy.stack([arrays[name] for arrays in per_env]) for name in per_env[0]}


@golden("cnn_training")
def cnn_training(rng):
    cases = train(rng, "pooled", 2, 19, 3, 10, 5, 3, 2, 2, 4)      # 10 -> 5 -> 2: an odd map, an odd batch
    cases.update(train(rng, "unpooled", 2, 17, 1, 7, 3, 3, 3, 1, 5))  # ReLU without a pool behind it
    cases.update(train(rng, "pointwise", 1, 16, 2, 6, 4, 1, 2, 2, 3))  # kernels of 1
    cases.update(train(rng, "tiled", 1, 18, 2, 8, 4, 3, 2, 2, 4))  # maps of 8 and 4: convolved in tiles
    return cases
