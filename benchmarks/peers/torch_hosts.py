#!/usr/bin/env python3
"""The peer of `esper bench host`: the same hosts trained with PyTorch.

Trains E copies of a host (blocks of conv 3x3, batch norm, ReLU, 2x2 max-pool; global average; linear) with
SGD (momentum 0.9, weight decay 5e-4) on a ready batch, and prints images per second as JSON. Two ways are
measured, each in both memory layouts, and the better one counts: E separate models, and all E in one model of
grouped convolutions. Versions are printed. Not part of any test.

    torch_hosts.py --hosts 4 --batch 128 --threads 2
    torch_hosts.py --task tiny --hosts 16 --batch 64
    torch_hosts.py --device cuda --precision bf16 --hosts 64
"""
import argparse
import json
import os
import statistics
import sys
import time

# image channels, image size, channels of the first block, blocks
TASKS = {"cifar_baseline": (3, 32, 8, 3), "tiny": (1, 16, 4, 2)}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--task", choices=sorted(TASKS), default="cifar_baseline")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--blocks", type=int, default=0, help="0 = the task's")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one timed window")
    parser.add_argument("--windows", type=int, default=5)
    return parser.parse_args()


def main():
    options = parse()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    torch.set_num_threads(options.threads)
    torch.backends.cudnn.benchmark = True
    n_in, size, base, n_blocks = TASKS[options.task]
    channels = tuple(base << block for block in range(options.blocks or n_blocks))
    n_hosts, batch, device = options.hosts, options.batch, options.device

    class Host(nn.Module):
        """`groups` hosts side by side in the channel axis; one is the plain host."""

        def __init__(self, groups):
            super().__init__()
            self.groups = groups
            widths = (n_in,) + channels
            self.convs = nn.ModuleList(
                nn.Conv2d(groups * i, groups * o, 3, padding=1, bias=False, groups=groups)
                for i, o in zip(widths, widths[1:]))
            self.norms = nn.ModuleList(nn.BatchNorm2d(groups * o) for o in channels)
            self.head = nn.Conv1d(groups * channels[-1], groups * 10, 1, groups=groups)

        def forward(self, x):
            for conv, norm in zip(self.convs, self.norms):
                x = F.max_pool2d(F.relu(norm(conv(x))), 2)
            x = x.mean((2, 3)).unsqueeze(2)
            return self.head(x).view(-1, self.groups, 10)

    def make_step(groups, n_models, layout):
        torch.manual_seed(1)
        images = torch.randn(batch, groups * n_in, size, size, device=device).contiguous(memory_format=layout)
        labels = torch.randint(0, 10, (batch, groups), device=device)
        models = [Host(groups).to(device).to(memory_format=layout) for _ in range(n_models)]
        updates = [torch.optim.SGD(m.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4) for m in models]

        def step():
            for model, update in zip(models, updates):
                with torch.autocast(device.split(":")[0], torch.bfloat16, enabled=options.precision == "bf16"):
                    logits = model(images)
                # the mean over images of each host's loss, summed over hosts: every host sees its own gradient
                loss = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), reduction="sum") / batch
                update.zero_grad(set_to_none=False)
                loss.backward()
                update.step()

        if device.startswith("cuda"):
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                for _ in range(5):
                    step()
            torch.cuda.current_stream().wait_stream(side)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            return graph.replay
        return step

    def measure(step):
        wait = torch.cuda.synchronize if device.startswith("cuda") else (lambda: None)
        step()
        rates = []
        for window in range(options.windows + 1):
            wait()
            start, n_steps = time.perf_counter(), 0
            while time.perf_counter() - start < options.seconds:
                for _ in range(20 if device.startswith("cuda") else 1):
                    step()
                    n_steps += 1
                wait()
            if window > 0:
                rates.append(n_steps * n_hosts * batch / (time.perf_counter() - start))
        return rates

    results = {}
    for name, groups, n_models in (("separate", 1, n_hosts), ("grouped", n_hosts, 1)):
        for layout_name, layout in (("nchw", torch.contiguous_format), ("channels_last", torch.channels_last)):
            results[f"{name} {layout_name}"] = measure(make_step(groups, n_models, layout))
        if n_hosts == 1:
            break  # one group is the plain model
    best = max(results, key=lambda key: statistics.median(results[key]))
    json.dump({
        "task": options.task, "hosts": n_hosts, "batch": batch, "threads": options.threads, "device": device,
        "precision": options.precision, "torch": torch.__version__, "python": sys.version.split()[0],
        "images_per_second": statistics.median(results[best]), "best": best, "samples": results[best],
        "all": {key: statistics.median(value) for key, value in results.items()},
    }, sys.stdout)
    print()


if __name__ == "__main__":
    main()
