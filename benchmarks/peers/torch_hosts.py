#!/usr/bin/env python3
"""The peer of `esper bench host`: the same hosts trained with PyTorch, in every way known to be good.

Trains E copies of a host (blocks of conv 3x3, batch norm, ReLU, 2x2 max-pool; global average; linear) with
SGD (momentum 0.9, weight decay 5e-4) and prints images per second as JSON; the best way counts. The batch is
ready in memory, in the layout and type the way computes in, and is the same at every step: what ours spends on
gathering and converting images is left out here, in the peer's favour.

  CPU    E separate models or all E in one model of grouped convolutions, each in both memory layouts
  CUDA   one grouped model, both layouts, every step launched anew or replayed from a CUDA graph; with
         --precision bf16 by autocast over f32 weights, or bf16 weights under f32 masters. SGD is fused.
  --compile adds torch.compile to each (replayed on CUDA)

A way that fails is named under "failed" and does not stop the others. "loss" is the mean loss of a host at the
end, so that one sees that it trained. Not part of any test.

    torch_hosts.py --hosts 4 --batch 128 --threads 2
    torch_hosts.py --task tiny --hosts 16 --batch 64
    torch_hosts.py --device cuda --precision bf16 --hosts 64
    printf '64\\n64\\n' | torch_hosts.py --device cuda --precision bf16 --serve
"""
import argparse
import collections
import gc
import itertools
import json
import math
import os
import statistics
import sys
import time

# image channels, image size, channels of the first block, blocks
TASKS = {"cifar_baseline": (3, 32, 8, 3), "tiny": (1, 16, 4, 2)}
SURVEY_WINDOWS = 2
# ways this close to the best of the survey are measured again in every round of --serve
CONTENDER = 0.9

# model: separate, grouped; layout: nchw, channels_last; cast: f32, autocast, master; mode: eager, graph
Way = collections.namedtuple("Way", "model layout cast is_compiled mode")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--task", choices=sorted(TASKS), default="cifar_baseline")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--blocks", type=int, default=0, help="0 = the task's")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one timed window, at least")
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--separate", action="store_true", help="CUDA: also E separate models")
    parser.add_argument("--compile", action="store_true", help="also with torch.compile (minutes)")
    parser.add_argument("--serve", action="store_true",
                        help="read numbers of hosts from standard input, one a line; answer each with a line.\n"
                             "The first time a number comes all ways are built and tried, then the better ones "
                             "stay")
    return parser.parse_args()


def ways_of(options, n_hosts):
    on_cuda, is_narrow = options.device.startswith("cuda"), options.precision == "bf16"
    models = ["grouped"] if on_cuda and not options.separate else ["separate", "grouped"]
    ways = [Way(*way) for way in itertools.product(
        models if n_hosts > 1 else ["separate"],  # one group is the plain model
        ["nchw", "channels_last"],
        ["f32"] if not is_narrow else ["autocast", "master"] if on_cuda else ["autocast"],
        [False, True] if options.compile else [False],
        ["graph", "eager"] if on_cuda else ["eager"])]
    # launching what was compiled is no faster than replaying it
    return [way for way in ways if not (on_cuda and way.is_compiled and way.mode == "eager")]


def name_of(way, options):
    words = [way.model, way.layout]
    words += [] if way.cast == "f32" else [way.cast]
    words += ["compiled"] if way.is_compiled else []
    words += [way.mode] if options.device.startswith("cuda") else []
    return " ".join(words)


def define_host(torch):
    nn, functional = torch.nn, torch.nn.functional

    class Host(nn.Module):
        """`groups` hosts side by side in the channel axis; one is the plain host."""

        def __init__(self, groups, n_in, channels):
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
                x = functional.max_pool2d(functional.relu(norm(conv(x))), 2)
            x = x.mean((2, 3)).unsqueeze(2)
            return self.head(x).view(-1, self.groups, 10)

    return Host


class Peer:
    """Builds ways of training n hosts as functions that run one step, and times them."""

    def __init__(self, options):
        os.environ["OMP_NUM_THREADS"] = str(options.threads)
        import torch

        torch.set_num_threads(options.threads)
        torch.backends.cudnn.benchmark = True
        self.torch, self.options, self.device = torch, options, options.device
        self.on_cuda = options.device.startswith("cuda")
        if self.on_cuda and not torch.cuda.is_available():
            sys.exit(f"torch_hosts.py: PyTorch {torch.__version__} finds no CUDA device")
        if options.compile:  # every model compiles the same function anew; past the limit it would not
            torch._dynamo.config.recompile_limit = 1000
        self.host_class = define_host(torch)
        self.n_in, self.size, base, n_blocks = TASKS[options.task]
        self.channels = tuple(base << block for block in range(options.blocks or n_blocks))
        self.n_hosts = 0
        self.steps = {}  # name of the way: (step, losses of its models, steps in one window)
        self.failed = {}
        self.survey = {}

    # --- building ---

    def make_sgd(self, parameters):
        settings = {"lr": 0.01, "momentum": 0.9, "weight_decay": 5e-4}
        if not self.on_cuda:
            return self.torch.optim.SGD(parameters, **settings)
        try:
            return self.torch.optim.SGD(parameters, fused=True, **settings)
        except (RuntimeError, TypeError):  # PyTorch before 2.3
            return self.torch.optim.SGD(parameters, foreach=True, **settings)

    def make_model_step(self, way, groups, images, labels, losses):
        """One SGD step of one model. Its loss goes to `losses`."""
        torch, batch = self.torch, self.options.batch
        layout = torch.channels_last if way.layout == "channels_last" else torch.contiguous_format
        model = self.host_class(groups, self.n_in, self.channels).to(self.device, memory_format=layout)
        if way.cast == "master":  # norms keep f32 weights, as is usual; they read and write bf16
            for layer in (*model.convs, model.head):
                layer.to(torch.bfloat16)
        narrow = [p for p in model.parameters() if p.dtype == torch.bfloat16]
        masters = [p.detach().float().clone() for p in narrow]
        for master in masters:
            master.grad = torch.zeros_like(master)
        wide = [p for p in model.parameters() if p.dtype == torch.float32]
        update = self.make_sgd(wide + masters)
        forward = torch.compile(model, dynamic=False) if way.is_compiled else model
        index = len(losses)
        losses.append(None)

        def step():
            with torch.autocast(self.device.split(":")[0], torch.bfloat16, enabled=way.cast == "autocast"):
                logits = forward(images)
            # the mean over images of each host's loss, summed over hosts: every host sees its own gradient
            loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten(),
                                                     reduction="sum") / batch
            model.zero_grad(set_to_none=True)
            loss.backward()
            with torch.no_grad():
                if narrow:
                    torch._foreach_copy_([m.grad for m in masters], [p.grad for p in narrow])
                update.step()
                if narrow:
                    torch._foreach_copy_(narrow, masters)
            losses[index] = loss.detach()

        return step

    def make_step(self, way):
        torch, batch = self.torch, self.options.batch
        torch.manual_seed(1)
        groups, n_models = (self.n_hosts, 1) if way.model == "grouped" else (1, self.n_hosts)
        layout = torch.channels_last if way.layout == "channels_last" else torch.contiguous_format
        images = torch.randn(batch, groups * self.n_in, self.size, self.size, device=self.device)
        images = images.to(torch.float32 if way.cast == "f32" else torch.bfloat16, memory_format=layout)
        labels = torch.randint(0, 10, (batch, groups), device=self.device)
        losses = []
        parts = [self.make_model_step(way, groups, images, labels, losses) for _ in range(n_models)]

        def step():
            for part in parts:
                part()

        return (self.capture(step) if way.mode == "graph" else step), losses

    def capture(self, step):
        torch = self.torch
        # convolutions are tuned and momentum is allocated before the capture, on a stream that it may use
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(5):
                step()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return graph.replay

    # --- measuring ---

    def wait(self):
        if self.on_cuda:
            self.torch.cuda.synchronize()

    def time_steps(self, step, n_steps):
        self.wait()
        start = time.perf_counter()
        for _ in range(n_steps):
            step()
        self.wait()
        return time.perf_counter() - start

    def calibrate(self, step):
        """How many steps make a window. Also warms up."""
        n_steps, seconds = 1, self.time_steps(step, 2) / 2
        while seconds < self.options.seconds / 4:
            n_steps *= 2
            seconds = self.time_steps(step, n_steps)
        return max(1, math.ceil(n_steps * self.options.seconds / seconds))

    def measure(self, name, n_windows):
        """Images per second of each window."""
        step, _, n_steps = self.steps[name]
        images = n_steps * self.n_hosts * self.options.batch
        return [images / self.time_steps(step, n_steps) for _ in range(n_windows)]

    def mean_loss(self, name):
        return float(sum(loss.double().sum() for loss in self.steps[name][1])) / self.n_hosts

    def build(self, n_hosts):
        """Build all ways of training so many hosts, in place of those there are."""
        self.steps, self.failed, self.survey, self.n_hosts = {}, {}, {}, n_hosts
        gc.collect()
        if self.on_cuda:
            self.torch.cuda.empty_cache()
        for way in ways_of(self.options, n_hosts):
            name = name_of(way, self.options)
            try:
                step, losses = self.make_step(way)
                self.steps[name] = (step, losses, self.calibrate(step))
                if not math.isfinite(self.mean_loss(name)):
                    raise RuntimeError("the loss is not finite")
            except Exception as error:  # a peer that cannot do something is still a peer
                self.steps.pop(name, None)
                self.failed[name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        if not self.steps:
            sys.exit(f"torch_hosts.py: no way of training {n_hosts} hosts works: {json.dumps(self.failed)}")

    def choose(self):
        """Try each way briefly and drop those that cannot be the best."""
        self.survey = {name: statistics.median(self.measure(name, SURVEY_WINDOWS)) for name in self.steps}
        bound = CONTENDER * max(self.survey.values())
        self.steps = {name: kept for name, kept in self.steps.items() if self.survey[name] >= bound}

    def report(self):
        options = self.options
        results = {name: self.measure(name, options.windows) for name in self.steps}
        medians = {name: statistics.median(rates) for name, rates in results.items()}
        best = max(medians, key=medians.get)
        return {
            "task": options.task, "hosts": self.n_hosts, "batch": options.batch, "threads": options.threads,
            "device": options.device, "precision": options.precision, "torch": self.torch.__version__,
            "python": sys.version.split()[0], "images_per_second": medians[best], "best": best,
            "samples": results[best], "all": {**self.survey, **medians}, "failed": self.failed,
            "loss": self.mean_loss(best), "input": "a ready batch",
        }


def main():
    options = parse()
    peer = Peer(options)
    if not options.serve:
        peer.build(options.hosts)
        print(json.dumps(peer.report()))
        return
    for line in sys.stdin:
        n_hosts = int(line)
        if n_hosts != peer.n_hosts:
            peer.build(n_hosts)
            peer.choose()
        print(json.dumps(peer.report()), flush=True)


if __name__ == "__main__":
    main()
