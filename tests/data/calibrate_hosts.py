"""Train small and large hosts on a generated data set and print their validation accuracy.

    dump_dataset raw tiny tiny.bin
    python3 calibrate_hosts.py tiny.bin --batch 64 --channels 4,8 14,28

A host is blocks of 3x3 convolution without bias, batch norm, ReLU and 2x2 max-pooling, then the
mean over the image and a linear layer. SGD with learning rate 0.01, momentum 0.9, weight decay
5e-4 on all parameters, no augmentation, no schedule, PyTorch's default initialisation. Needs
PyTorch and NumPy; runs on the GPU when there is one.
"""
import argparse
import struct

import numpy
import torch
from torch import nn


def read_raw(path):
    data = open(path, "rb").read()
    c, h, w, n_train, n_validation = struct.unpack("5i", data[:20])
    rows = numpy.frombuffer(data, numpy.uint8, offset=20)
    rows = rows.reshape(n_train + n_validation, 1 + c * h * w)
    images = torch.tensor(rows[:, 1:].reshape(-1, c, h, w)).float() / 255
    labels = torch.tensor(rows[:, 0]).long()
    mean = images[:n_train].mean((0, 2, 3), keepdim=True)
    std = images[:n_train].std((0, 2, 3), keepdim=True)
    return (images - mean) / std, labels, n_train


def build_host(n_inputs, channels):
    layers = []
    for c in channels:
        layers += [nn.Conv2d(n_inputs, c, 3, padding=1, bias=False),
                   nn.BatchNorm2d(c), nn.ReLU(), nn.MaxPool2d(2)]
        n_inputs = c
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_inputs, 10))


def capture(step, model, optimiser):
    """A CUDA graph of one step, and the model back in its first state."""
    state = {name: value.clone() for name, value in model.state_dict().items()}
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    with torch.no_grad():
        for name, value in model.state_dict().items():
            value.copy_(state[name])
        for parameter in model.parameters():
            optimiser.state[parameter]["momentum_buffer"].zero_()
    return graph.replay


def accuracy(model, images, labels):
    model.eval()
    with torch.no_grad():
        answers = torch.cat([model(part).argmax(1) for part in images.split(1000)])
    model.train()
    return 100 * (answers == labels).float().mean().item()


def train_host(images, labels, n_train, channels, batch, epochs, seed):
    torch.manual_seed(seed)
    device = images.device
    model = build_host(images.shape[1], channels).to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    index = torch.zeros(batch, dtype=torch.long, device=device)

    def step():
        optimiser.zero_grad(set_to_none=False)
        nn.functional.cross_entropy(model(images[index]), labels[index]).backward()
        optimiser.step()

    run_step = capture(step, model, optimiser) if device.type == "cuda" else step
    last = []
    for epoch in range(epochs):
        order = torch.randperm(n_train, device=device)
        for b in range(n_train // batch):
            index.copy_(order[b * batch:(b + 1) * batch])
            run_step()
        if epoch >= epochs - 5:
            last.append(accuracy(model, images[n_train:], labels[n_train:]))
    n_parameters = sum(p.numel() for p in model.parameters())
    return n_parameters, accuracy(model, images[:4000], labels[:4000]), last


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("raw", help="file written by dump_dataset raw")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--channels", nargs="+", default=["8,16,32", "26,52,104"])
    arguments = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images, labels, n_train = read_raw(arguments.raw)
    images, labels = images.to(device), labels.to(device)
    for text in arguments.channels:
        channels = [int(c) for c in text.split(",")]
        results = [train_host(images, labels, n_train, channels, arguments.batch,
                              arguments.epochs, seed)
                   for seed in range(arguments.seeds)]
        print(f"{arguments.raw} channels {text} parameters {results[0][0]}",
              "validation", " ".join(f"{r[2][-1]:.1f}" for r in results),
              "mean of last 5 epochs", " ".join(f"{sum(r[2]) / len(r[2]):.1f}" for r in results),
              "train", " ".join(f"{r[1]:.1f}" for r in results), flush=True)


if __name__ == "__main__":
    main()
