#!/usr/bin/env python3
"""The peer of `esper fit`: the topology that a fit ended with, trained from scratch with PyTorch.

usage: torch_fit.py RUN [options]       after: esper export RUN --torch RUN/networks/1/network.py

RUN is the folder of a fit of IDX images. Layers come from the exported module, weights start anew from the
distributions that esper draws them from, and the recipe is read from RUN/config.ini: SGD (or AdamW), learning rates
of host and seeds, schedule, weight decay, clipping of host and seeds, label smoothing, crops, flips, erasing,
averaged weights. As in a fit the averaged weights are evaluated on the validation images after every epoch; the best
epoch gives "test_accuracy", the last one "test_accuracy_last". Random numbers are PyTorch's own. Prints one line of
JSON for each seed; "ratio" is PyTorch's time of an epoch over the fit's own, of the epochs of its second half that
had one candidate (threads 0: all of them).

PyTorch gets its best simple form. Images are augmented for a whole epoch at a time, as bytes; all weights lie in one
tensor, as do gradients, momentum and averages, so that an update is a few operations; a step on CUDA is replayed from
a graph. Both memory layouts are tried for some steps, with --compile also under torch.compile, and the fastest
trains.

    torch_fit.py runs/clothes --seeds 3 --threads 2 --compile
    torch_fit.py runs/clothes --time-only --threads 2 --compile
    torch_fit.py runs/clothes --seeds 3 --device cuda
"""
import argparse
import configparser
import gzip
import importlib.util
import json
import math
import pathlib
import sqlite3
import statistics
import struct
import sys
import time

import torch
import torch._dynamo

FASHION_MNIST = "/usr/share/datasets/fashion-mnist"  # of Debian's package
PAD_NUMBERS = 64  # a tensor begins at a multiple of so many numbers
WARM_STEPS, SURVEY_STEPS = 10, 40
EVALUATION_BATCH = 1000


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=pathlib.Path, help="folder of a fit")
    parser.add_argument("--module", type=pathlib.Path, help="exported module; default: RUN/networks/1/network.py")
    parser.add_argument("--folder", type=pathlib.Path,
                        help=f"folder of the IDX files; default: the run's own, or\n{FASHION_MNIST}")
    parser.add_argument("--epochs", type=int, default=0, help="0 = the run's")
    parser.add_argument("--seeds", type=int, default=1, help="how many, from --first-seed on")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compile", action="store_true", help="try torch.compile, too (about a minute)")
    parser.add_argument("--time-only", type=int, nargs="?", const=5, default=0, metavar="N",
                        help="time N epochs (5) after one that does not count; no accuracies")
    return parser.parse_args()


# --- the fit ---


def read_recipe(folder):
    """Sections [fit] and [recipe] of the run in one dictionary of numbers, truths and words."""
    config = configparser.ConfigParser()
    config.read_string((folder / "config.ini").read_text())
    if config["run"]["kind"] != "fit":
        sys.exit(f"torch_fit.py: {folder} is a run of kind {config['run']['kind']}, not a fit")
    recipe = {"epochs": int(config["run"]["rounds"]), "threads": int(config["run"]["threads"])}
    for section in ("fit", "recipe"):
        for key, text in config[section].items():
            try:
                recipe[key] = float(text)
            except ValueError:
                recipe[key] = {"true": True, "false": False}.get(text, text)
    return recipe


def read_fit(folder, n_threads):
    """What the fit itself reached: the accuracy of its network, and the seconds of an epoch with one candidate."""
    made_by = json.loads((folder / "networks" / "1" / "network.json").read_text())["made_by"]
    rows = []
    if (folder / "run.db").exists():
        database = sqlite3.connect(f"file:{folder / 'run.db'}?mode=ro", uri=True)
        # n_steps counts candidates
        rows = database.execute("SELECT seconds FROM event_round_completed WHERE n_steps = 1 AND "
                                "2 * round > (SELECT MAX(round) FROM event_round_completed)").fetchall()
        database.close()
    seconds = round(statistics.median(row[0] for row in rows), 4) if rows else None
    return {"test_accuracy": made_by.get("test_accuracy"), "validation_accuracy": made_by.get("validation_accuracy"),
            "threads": n_threads, "epoch_seconds": seconds}


def read_module(path, folder):
    if not path.exists():
        sys.exit(f"torch_fit.py: {path} is missing; write it: esper export {folder} --torch {path}")
    spec = importlib.util.spec_from_file_location("exported", path)
    exported = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(exported)
    return exported.Network(str(folder / "networks" / "1" / "network.safetensors"))


# --- images ---


def read_idx(path):
    """A file of bytes, plain or .gz, in its shape."""
    zipped = path.with_name(path.name + ".gz")
    data = gzip.open(zipped).read() if zipped.exists() else path.read_bytes()
    rank = data[3]
    shape = struct.unpack(f">{rank}I", data[4:4 + 4 * rank])
    return torch.frombuffer(bytearray(data), dtype=torch.uint8, offset=4 + 4 * rank).reshape(shape)


class Data:
    """The splits of a fit: the last tenth of the training file is for validation."""

    def __init__(self, folder, device):
        images, labels = self.read(folder, "train", device)
        self.n_train = len(labels) - (len(labels) + 9) // 10
        self.train = images[:self.n_train], labels[:self.n_train]
        self.validation = images[self.n_train:], labels[self.n_train:]
        self.test = self.read(folder, "t10k", device)

    @staticmethod
    def read(folder, part, device):
        images, labels = read_idx(folder / f"{part}-images-idx3-ubyte"), read_idx(folder / f"{part}-labels-idx1-ubyte")
        return images.unsqueeze(1).to(device), labels.long().to(device)


class Augmenter:
    """Epochs of augmented bytes: an endless stream of shuffled passes, each image cropped, flipped and erased."""

    def __init__(self, data, recipe, mean_byte, generator):
        images, self.labels = data.train
        self.recipe, self.mean_byte, self.generator = recipe, mean_byte, generator
        self.device, self.size, self.pad = images.device, images.shape[2], int(recipe["pad"])
        self.left = torch.empty(0, dtype=torch.long, device=self.device)  # of the last pass
        padded = images.float()
        if recipe["border"] == "reflect":
            padded = torch.nn.functional.pad(padded, (self.pad,) * 4, mode="reflect")
        else:
            padded = torch.nn.functional.pad(padded, (self.pad,) * 4,
                                             value=mean_byte if recipe["border"] == "mean" else 0)
        self.padded = padded.to(torch.uint8)

    def draw(self, n_values, count):
        return torch.randint(n_values, (count,), generator=self.generator, device=self.device)

    def draw_below(self, limits):
        """One whole number below each of the limits."""
        unit = torch.rand(len(limits), generator=self.generator, device=self.device)
        return torch.minimum((unit * limits).long(), limits - 1)

    def next_samples(self, count):
        while len(self.left) < count:
            order = torch.randperm(len(self.labels), generator=self.generator, device=self.device)
            self.left = torch.cat([self.left, order])
        samples, self.left = self.left[:count], self.left[count:]
        return samples

    def erase(self, images):
        unit = torch.rand(len(images), generator=self.generator, device=self.device)
        chosen = (unit < self.recipe["erase"]).nonzero().squeeze(1)
        height, width = (1 + self.draw(self.size // 2, len(chosen)) for _ in range(2))
        top, left = self.draw_below(self.size - height + 1), self.draw_below(self.size - width + 1)
        place = torch.arange(self.size, device=self.device)
        rows = (place >= top[:, None]) & (place < (top + height)[:, None])
        columns = (place >= left[:, None]) & (place < (left + width)[:, None])
        erased = (rows[:, :, None] & columns[:, None, :]).unsqueeze(1)
        images[chosen] = images[chosen].masked_fill(erased, self.mean_byte)

    def fill(self, images, labels):
        """The next len(labels) samples, augmented."""
        count, size, n_offsets = len(labels), self.size, 2 * self.pad + 1
        samples = self.next_samples(count)
        labels.copy_(self.labels[samples])
        # all samples with the same crop and flip are one copy
        kinds = self.draw(n_offsets * n_offsets * (2 if self.recipe["flip"] else 1), count)
        order = kinds.argsort()
        first = 0
        for kind, n in enumerate(torch.bincount(kinds, minlength=1).tolist()):
            at = order[first:first + n]
            first += n
            row, column, is_flipped = kind % n_offsets, kind // n_offsets % n_offsets, kind >= n_offsets ** 2
            cropped = self.padded[samples[at], :, row:row + size, column:column + size]
            images[at] = cropped.flip(3) if is_flipped else cropped
        if self.recipe["erase"] > 0:
            self.erase(images)


# --- training ---


def slot_of(name):
    """The slot of a seed's tensor, "" for the host's; names are r0c0_conv_weight, block0_conv_weight, head_bias."""
    first = name.split("_")[0]
    return first if first[0] == "r" and first[1:2].isdigit() else ""


def initialise(network, generator):
    """New weights as the builders of src/network/graph and src/growth/host/blueprint.c draw them."""
    tensors = dict(network.named_parameters()) | dict(network.named_buffers())
    for name, tensor in tensors.items():
        layer, _, part = name.rpartition("_")
        if name in ("centre", "scale"):
            continue
        if part == "gamma":
            # the branch of a seed ends in a norm of gamma 0; a seed that only normalises has none
            is_branch = slot_of(name) != "" and layer.endswith("_norm") and f"{slot_of(name)}_mix" not in tensors
            tensor.data.fill_(0 if is_branch else 1)
        elif part in ("beta", "mix", "mean") or name.endswith("_excite_weight"):
            tensor.data.zero_()
        elif part == "variance":
            tensor.data.fill_(1)
        elif name.endswith("_excite_bias"):
            tensor.data.fill_(3)
        else:
            bound = 1 / math.sqrt(tensors[layer + "_weight"][0].numel())
            low = 0.0 if layer.endswith("_squeeze") else -bound
            tensor.data.uniform_(low, bound, generator=generator)


def schedule_shares(recipe, n_updates, updates_per_epoch):
    """The share of the learning rate at every update (src/kernels/ops/schedule_rules.h, recipe.c)."""
    shares, warmup, final = [], recipe["warmup"] * n_updates, recipe["final"]
    for update in range(1, n_updates + 1):
        if update < warmup:
            shares.append(update / warmup)
            continue
        progress = (update - warmup) / (n_updates - warmup) if n_updates > warmup else 1
        shares.append({"constant": 1, "step": 1, "linear": 1 - (1 - final) * progress,
                       "cosine": final + (1 - final) * 0.5 * (1 + math.cos(math.pi * progress))}[recipe["schedule"]])
    if recipe["schedule"] == "step":
        shares = [share * recipe["step_factor"] ** (i // updates_per_epoch // int(recipe["step_epochs"]))
                  for i, share in enumerate(shares)]
    return shares


class Trainer:
    """One network and its training, in one way: (memory layout, whether compiled)."""

    def __init__(self, options, recipe, data, way, seed):
        self.options, self.recipe, self.data, self.way = options, recipe, data, way
        self.device, self.on_cuda = options.device, options.device.startswith("cuda")
        self.network = read_module(options.module, options.run)
        initialise(self.network, torch.Generator().manual_seed(seed))
        self.network.to(self.device)
        generator = torch.Generator(self.device).manual_seed(seed + 1000003)
        mean_byte = int(self.network.centre.flatten()[0].item() + 0.5)
        self.augmenter = Augmenter(data, recipe, mean_byte, generator)
        self.flatten()
        n_epochs, self.n_updates = recipe["epochs"], recipe["updates"]
        shares = schedule_shares(recipe, n_epochs * self.n_updates, self.n_updates)
        keeps = [min(recipe["average"], (1 + i) / (10 + i)) for i in range(len(shares))]
        self.shares = torch.tensor(shares, device=self.device)
        self.moves = 1 - torch.tensor(keeps, device=self.device)
        self.update = torch.zeros(1, dtype=torch.long, device=self.device)
        self.place = torch.zeros(1, dtype=torch.long, device=self.device)  # of the batch in the epoch
        batch, size = recipe["batch"], data.train[0].shape[2]
        self.images = torch.zeros(self.n_updates * batch, 1, size, size, dtype=torch.uint8, device=self.device)
        self.labels = torch.zeros(self.n_updates * batch, dtype=torch.long, device=self.device)
        self.row = torch.arange(batch, device=self.device)
        self.compute_loss = torch.compile(self.forward, dynamic=False) if way[1] else self.forward
        self.step = self.run_step

    # parameters and statistics become views of two flat tensors, the host's first, then slot by slot
    def flatten(self):
        network, recipe = self.network, self.recipe
        names = sorted(dict(network.named_parameters()), key=slot_of)
        groups, total = {}, 0
        offsets = {}
        for name in names:
            offsets[name] = total
            total += -(-getattr(network, name).numel() // PAD_NUMBERS) * PAD_NUMBERS
            first, _ = groups.get(slot_of(name), (offsets[name], 0))
            groups[slot_of(name)] = (first, total)
        self.groups = list(groups.values())
        self.weights, self.gradients, self.momentum, self.moment2 = (torch.zeros(total, device=self.device)
                                                                     for _ in range(4))
        for name in names:
            parameter = getattr(network, name)
            value = parameter.detach().clone()
            parameter.data = self.view(self.weights, offsets[name], value.shape)
            parameter.data.copy_(value)
            parameter.grad = self.view(self.gradients, offsets[name], value.shape)
        end = groups[""][1]
        self.rates = torch.full((total,), recipe["seed_rate"], device=self.device)
        self.rates[:end] = recipe["rate"]
        self.decay = torch.zeros(total, device=self.device)
        self.decay[:end] = recipe["weight_decay"]
        states = [buffer for name, buffer in network.named_buffers() if "running_" in name]
        self.states = torch.cat([state.flatten() for state in states])
        first = 0
        for state in states:
            state.data = self.states[first:first + state.numel()]
            first += state.numel()
        self.average, self.average_states = self.weights.clone(), self.states.clone()

    def view(self, flat, first, shape):
        part = flat[first:first + math.prod(shape)]
        if self.way[0] == "channels_last" and len(shape) == 4:
            return part.view(shape[0], shape[2], shape[3], shape[1]).permute(0, 3, 1, 2)
        return part.view(shape)

    def forward(self, images, labels):
        logits = self.network(images)
        return torch.nn.functional.cross_entropy(logits, labels, label_smoothing=self.recipe["smoothing"])

    def take_batch(self):
        rows = self.place * len(self.row) + self.row
        images = self.images[rows]
        if self.way[0] == "channels_last":
            images = images.contiguous(memory_format=torch.channels_last)
        return images, self.labels[rows]

    def run_step(self):
        self.gradients.zero_()
        self.compute_loss(*self.take_batch()).backward()
        with torch.no_grad():
            self.update_weights()

    def update_weights(self):
        recipe, gradients, momentum = self.recipe, self.gradients, self.momentum
        if recipe["clip"] > 0:
            for first, end in self.groups:
                part = gradients[first:end]
                part.mul_((recipe["clip"] / (part.norm() + 1e-6)).clamp(max=1))
        rates = self.rates * self.shares[self.update]
        if recipe["optimiser"] == "adamw":
            self.weights.sub_(rates * self.decay * self.weights)
            momentum.lerp_(gradients, 1 - recipe["beta1"])
            self.moment2.lerp_(gradients.square(), 1 - recipe["beta2"])
            n = (self.update + 1).double()
            corrected = (self.moment2 / (1 - recipe["beta2"] ** n)).float().sqrt_().add_(1e-8)
            self.weights.sub_(rates * (momentum / (1 - recipe["beta1"] ** n)).float() / corrected)
        else:
            gradients.addcmul_(self.weights, self.decay)
            momentum.mul_(recipe["momentum"]).add_(gradients)
            if recipe["nesterov"]:
                self.weights.addcmul_(rates, gradients.add_(momentum, alpha=recipe["momentum"]), value=-1)
            else:
                self.weights.addcmul_(rates, momentum, value=-1)
        if recipe["average"] > 0:
            move = self.moves[self.update]
            self.average.lerp_(self.weights, move)
            self.average_states.lerp_(self.states, move)
        self.update.add_(1)
        self.place.add_(1)

    # --- around the steps ---

    def kept(self):
        return (self.weights, self.states, self.average, self.average_states, self.momentum, self.moment2, self.update,
                self.place)

    def rewind(self):
        """To the first update and batch, for steps that are only timed."""
        self.update.zero_()
        self.place.zero_()

    def wait(self):
        if self.on_cuda:
            torch.cuda.synchronize()

    def warm_up(self):
        """Compile, tune and capture, then time some steps; weights are as before afterwards. Seconds of a step."""
        saved = [tensor.clone() for tensor in self.kept()]
        self.network.train()
        self.wait()
        with torch.cuda.stream(torch.cuda.Stream() if self.on_cuda else None):  # one that a capture may follow
            for _ in range(WARM_STEPS):
                self.rewind()
                self.run_step()
        self.wait()
        if self.on_cuda:
            self.capture()
        times = []
        for _ in range(SURVEY_STEPS):
            self.rewind()
            self.wait()
            start = time.perf_counter()
            self.step()
            self.wait()
            times.append(time.perf_counter() - start)
        for tensor, value in zip(self.kept(), saved):
            tensor.copy_(value)
        return statistics.median(times)

    def capture(self):
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.run_step()
            self.step = graph.replay
        except RuntimeError as error:
            print(f"torch_fit.py: launched step by step, for the capture failed: {str(error).splitlines()[0]}",
                  file=sys.stderr)

    def run_epoch(self):
        self.network.train()
        self.augmenter.fill(self.images, self.labels)
        self.place.zero_()
        for _ in range(self.n_updates):
            self.step()

    @torch.no_grad()
    def evaluate(self, split):
        """Accuracy in percent, and loss, with the averaged weights where there are any."""
        images, labels = split
        saved = self.weights.clone(), self.states.clone()
        if self.recipe["average"] > 0:
            self.weights.copy_(self.average)
            self.states.copy_(self.average_states)
        self.network.eval()
        n_correct = loss = 0.0
        for first in range(0, len(labels), EVALUATION_BATCH):
            part = images[first:first + EVALUATION_BATCH]
            if self.way[0] == "channels_last":
                part = part.contiguous(memory_format=torch.channels_last)
            logits, wanted = self.network(part), labels[first:first + EVALUATION_BATCH]
            n_correct += (logits.argmax(1) == wanted).sum()
            loss += torch.nn.functional.cross_entropy(logits, wanted, reduction="sum")
        self.weights.copy_(saved[0])
        self.states.copy_(saved[1])
        return 100 * float(n_correct) / len(labels), float(loss) / len(labels)

    def train(self):
        """All epochs: the result of a seed."""
        self.wait()
        start, best, times = time.perf_counter(), (-1.0, 0.0), []
        for epoch in range(1, self.recipe["epochs"] + 1):
            began = time.perf_counter()
            self.run_epoch()
            accuracy, loss = self.evaluate(self.data.validation)
            times.append(time.perf_counter() - began)
            if (accuracy, -loss) > best:
                best, best_epoch = (accuracy, -loss), epoch
                saved = [tensor.clone() for tensor in self.kept()]
        self.wait()
        seconds = time.perf_counter() - start
        last = self.evaluate(self.data.test)[0]
        for tensor, value in zip(self.kept(), saved):
            tensor.copy_(value)
        test = self.evaluate(self.data.test)[0]
        return {"test_accuracy": test, "test_accuracy_last": last, "validation_accuracy": best[0],
                "best_epoch": best_epoch, "seconds": round(seconds, 3),
                "epoch_seconds": round(statistics.median(times), 4)}

    def time_epochs(self, n_epochs):
        times = []
        for _ in range(n_epochs + 1):
            self.rewind()
            self.wait()
            start = time.perf_counter()
            self.run_epoch()
            self.evaluate(self.data.validation)
            times.append(time.perf_counter() - start)
        return {"epoch_seconds": round(statistics.median(times[1:]), 4), "samples": [round(t, 4) for t in times[1:]]}


# --- the program ---


def find_way(options, recipe, data):
    """The fastest way of training, and the milliseconds of a step in every way."""
    ways, found = [("nchw", False), ("channels_last", False)], {}
    for way in ways + [(layout, True) for layout, _ in ways if options.compile]:
        try:
            found[way] = Trainer(options, recipe, data, way, 0).warm_up()
        except Exception as error:  # a way that does not work here is not the best
            reason = (str(error).splitlines() or [""])[0]
            print(f"torch_fit.py: {name_of(way)}: {type(error).__name__}: {reason}", file=sys.stderr)
    if not found:
        sys.exit("torch_fit.py: no way of training works here")
    return min(found, key=found.get), {name_of(way): round(1e3 * seconds, 3) for way, seconds in found.items()}


def name_of(way):
    return way[0] + (" compiled" if way[1] else "")


def main():
    options = parse()
    torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision("high")  # TF32 on a GPU, as ours
    torch.backends.cudnn.benchmark = True
    torch._dynamo.config.recompile_limit = 1000  # every trainer compiles the same function anew
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit(f"torch_fit.py: PyTorch {torch.__version__} finds no CUDA device")
    recipe = read_recipe(options.run)
    options.module = options.module or options.run / "networks" / "1" / "network.py"
    folder = options.folder or pathlib.Path(recipe["folder"] or FASHION_MNIST)
    if not (recipe["data"] in ("fashion-mnist", "idx") or options.folder):
        sys.exit(f"torch_fit.py: the fit's data is {recipe['data']}; --folder names a folder of IDX files of it")
    data = Data(folder, options.device)
    recipe["epochs"] = options.epochs or recipe["epochs"]
    recipe["batch"] = int(recipe["batch"]) or max(1, min(128, data.n_train // 8))
    recipe["updates"] = int(recipe["epoch_batches"]) or data.n_train // recipe["batch"]
    way, ways = find_way(options, recipe, data)
    network = read_module(options.module, options.run)
    report = {"run": str(options.run), "parameters": sum(p.numel() for p in network.parameters()),
              "epochs": options.time_only or recipe["epochs"], "updates": recipe["updates"], "batch": recipe["batch"],
              "device": torch.cuda.get_device_name() if options.device.startswith("cuda") else "cpu",
              "threads": options.threads, "torch": torch.__version__, "way": name_of(way), "step_ms": ways,
              "fit": read_fit(options.run, recipe["threads"])}
    for seed in range(options.first_seed, options.first_seed + (1 if options.time_only else options.seeds)):
        trainer = Trainer(options, recipe, data, way, seed)
        trainer.warm_up()
        result = trainer.time_epochs(options.time_only) if options.time_only else trainer.train()
        ours = report["fit"]["epoch_seconds"]
        result["ratio"] = round(result["epoch_seconds"] / ours, 3) if ours else None
        print(json.dumps({**report, "seed": seed, **result}), flush=True)


if __name__ == "__main__":
    main()
