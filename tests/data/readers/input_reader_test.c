// Inputs without labels from images, arrays and tables: numbers and names as they should be, and
// files that cannot be are refused with their place.
#include "data/inputs.h"

#include "data/image.h"
#include "temp_folder.h"

static const EsInputShape grey4 = {.n_channels = 1, .size = 4};
static const EsInputShape colour4 = {.n_channels = 3, .size = 4};
static const char *const columns[] = {"width", "height"};
static const EsInputShape rows2 = {.is_rows = 1, .n_channels = 2, .size = 1};
static const EsInputShape named2 = {
    .is_rows = 1, .n_channels = 2, .size = 1, .column_names = columns};

static float inputs[ES_INPUTS_MAX * 64];

// Reads everything in one call; -1 when it is refused.
static int64_t read_all(const char *path, const EsInputShape *shape, char name[4200]) {
    EsInputReader *reader = NULL;
    int64_t n = -1, rest = 0;
    EsStatus status = es_input_reader_open(path, shape, &reader);
    if (status == ES_STATUS_OK) {
        status = es_input_reader_next(reader, ES_INPUTS_MAX, inputs, &n);
    }
    if (status == ES_STATUS_OK) {
        snprintf(name, 4200, "%s", n > 0 ? es_input_reader_name(reader, n - 1) : "");
        EXPECT_STATUS(es_input_reader_next(reader, 1, inputs + n * 48, &rest), OK);
        EXPECT_EQ(rest, 0);
    }
    es_input_reader_close(reader);
    EXPECT(status == ES_STATUS_OK || status == ES_STATUS_INPUT);
    return status == ES_STATUS_OK ? n : -1;
}

static void expect_refused(const char *path, const EsInputShape *shape, const char *reason) {
    char name[4200];
    EXPECT_EQ(read_all(path, shape, name), -1);
    EXPECT_CONTAINS(es_status_detail(), reason);
}

// A .npy file of version 1; returns its path.
static const char *write_npy(const char *name, const char *type, const char *order,
                             const char *shape, const void *data, size_t bytes) {
    char file[4096] = "\x93NUMPY\x01";
    int length = snprintf(file + 10, 512, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n",
                          type, order, shape);
    file[7] = 0;
    file[8] = (char)length;
    file[9] = 0;
    memcpy(file + 10 + length, data, bytes);
    return write_temp_file(name, file, 10 + (size_t)length + bytes);
}

TEST(reads_arrays_of_any_order) {
    char name[4200];
    uint8_t bytes[2 * 48];
    float floats[2 * 48];
    double rows[] = {1.5, -2, 3, 4, 5, 6};
    for (int i = 0; i < 96; i++) {
        bytes[i] = (uint8_t)i;
        floats[i] = (float)i;
    }
    EXPECT_EQ(read_all(write_npy("a.npy", "|u1", "False", "(2, 4, 4)", bytes, 32), &grey4, name),
              2);
    EXPECT_NEAR(inputs[17], 17, 0);
    EXPECT_CONTAINS(name, "a.npy[1]");
    EXPECT_EQ(read_all(write_npy("b.npy", "|u1", "False", "(4, 4)", bytes, 16), &grey4, name), 1);
    EXPECT_EQ(
        read_all(write_npy("c.npy", "<f4", "False", "(2, 3, 4, 4)", floats, 384), &colour4, name),
        2);
    EXPECT_NEAR(inputs[50], 50, 0);
    // pixels in 0..1 are scaled as in training, in whatever image the largest one is
    for (int i = 0; i < 96; i++) {
        floats[i] = (float)i / 95;
    }
    EXPECT_EQ(
        read_all(write_npy("k.npy", "<f4", "False", "(2, 3, 4, 4)", floats, 384), &colour4, name),
        2);
    EXPECT_NEAR(inputs[0], 0, 0);
    EXPECT_NEAR(inputs[19], 255.0 * 19 / 95, 1e-4);
    EXPECT_NEAR(inputs[95], 255, 0);
    for (int i = 0; i < 96; i++) {
        floats[i] = (float)i;
    }
    // pixel by pixel: channel 1 of pixel 2 is number 3 * 2 + 1
    EXPECT_EQ(
        read_all(write_npy("d.npy", "<f4", "False", "(2, 4, 4, 3)", floats, 384), &colour4, name),
        2);
    EXPECT_NEAR(inputs[16 + 2], 7, 0);
    EXPECT_EQ(
        read_all(write_npy("e.npy", "|u1", "False", "(2, 4, 4, 3)", bytes, 96), &colour4, name), 2);
    EXPECT_NEAR(inputs[16 + 2], 7, 0);
    // planes of bytes, and another size, which is scaled
    EXPECT_EQ(
        read_all(write_npy("f.npy", "|u1", "False", "(2, 3, 4, 4)", bytes, 96), &colour4, name), 2);
    EXPECT_NEAR(inputs[16 + 2], 18, 0);
    EXPECT_EQ(read_all(write_npy("g.npy", "|u1", "False", "(1, 8, 8)", bytes, 64), &grey4, name),
              1);
    EXPECT_EQ(read_all(write_npy("h.npy", "<f8", "False", "(3, 2)", rows, 48), &rows2, name), 3);
    EXPECT_NEAR(inputs[1], -2, 0);
    EXPECT_NEAR(inputs[5], 6, 0);
    // whole numbers of any width, as training reads them; pixels among them are not scaled
    const int16_t whole[] = {-3, 300, 1, 0};
    EXPECT_EQ(read_all(write_npy("i.npy", "<i2", "False", "(2, 2)", whole, 8), &rows2, name), 2);
    EXPECT_NEAR(inputs[0], -3, 0);
    EXPECT_NEAR(inputs[1], 300, 0);
    const int16_t pixels[16] = {0, 1};
    EXPECT_EQ(read_all(write_npy("l.npy", "<u2", "False", "(4, 4)", pixels, 32), &grey4, name), 1);
    EXPECT_NEAR(inputs[1], 1, 0);
}

TEST(refuses_arrays_that_cannot_be) {
    uint8_t bytes[64] = {0};
    float broken[] = {1, NAN}, beyond[16] = {1, 256};
    expect_refused(write_npy("k.npy", "<f4", "False", "(1, 4, 4)", beyond, 64), &grey4,
                   "a pixel of image 0 is 256, expected values in 0..1 or 0..255");
    expect_refused(write_npy("a.npy", "|u1", "True", "(2, 4, 4)", bytes, 32), &grey4, "Fortran");
    expect_refused(write_npy("b.npy", ">f4", "False", "(2, 2)", bytes, 16), &rows2, "big-endian");
    expect_refused(write_npy("c.npy", "|u1", "False", "(2, 4, 4)", bytes, 31), &grey4,
                   "announces 32 values");
    expect_refused(write_npy("d.npy", "|u1", "False", "(99999999, 4, 4)", bytes, 32), &grey4,
                   "d.npy");
    expect_refused(write_npy("e.npy", "|u1", "False", "(0, 4, 4)", bytes, 0), &grey4,
                   "an axis that is empty");
    expect_refused(write_npy("f.npy", "|u1", "False", "(2, -4, 4)", bytes, 32), &grey4,
                   "an axis that is empty, negative");
    expect_refused(write_npy("g.npy", "|u1", "False", "(2, 3)", bytes, 6), &rows2, "rows [N, 2]");
    expect_refused(write_npy("h.npy", "<f4", "False", "(1, 2)", broken, 8), &rows2, "not finite");
    expect_refused(write_npy("i.npy", "<f4", "False", "(1, 2, 2)", bytes, 16), &grey4,
                   "[N, 1, 4, 4]");
    expect_refused(write_npy("j.npy", "|u1", "False", "(1, 99999, 2)", bytes, 16), &grey4, "99999");
    expect_refused(write_temp_text("k.npy", "x"), &grey4, "k.npy");
    expect_refused(write_temp_text("l.npy", "0123456789abcdef"), &grey4,
                   "does not begin as a .npy file");
    expect_refused(write_temp_text("m.bin", "0123456789abcdef"), &grey4, "neither an image");
    expect_refused(temp_path("nothing"), &grey4, "No such file");
}

TEST(reads_idx) {
    char name[4200];
    const unsigned char idx[16 + 32] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 4, 9, 8};
    const char *path = write_temp_file("images-idx3-ubyte", idx, sizeof idx);
    EXPECT_EQ(read_all(path, &grey4, name), 2);
    EXPECT_NEAR(inputs[1], 8, 0);
    expect_refused(write_temp_file("short-idx3-ubyte", idx, 40), &grey4, "short-idx3-ubyte");
    expect_refused(path, &rows2, "rows [N, 2]");
}

TEST(reads_tables) {
    char name[4200];
    EXPECT_EQ(read_all(write_temp_text("a.csv", "1,2\n3,4\r\n\n-5e1, 6 \n"), &rows2, name), 3);
    EXPECT_NEAR(inputs[0], 1, 0);
    EXPECT_NEAR(inputs[4], -50, 0);
    EXPECT_NEAR(inputs[5], 6, 0);
    EXPECT_CONTAINS(name, "a.csv:4");
    // by name, in another order, with a label between
    EXPECT_EQ(
        read_all(write_temp_text("b.csv", "height;\"class\";width\n7;\"a;b\";8\n"), &named2, name),
        1);
    EXPECT_NEAR(inputs[0], 8, 0);
    EXPECT_NEAR(inputs[1], 7, 0);
    EXPECT_EQ(read_all(write_temp_text("c.csv", "x,y\n1,2"), &rows2, name), 1);
    EXPECT_CONTAINS(name, "c.csv:2");
    expect_refused(write_temp_text("d.csv", "1,2\n3,\n"), &rows2,
                   "d.csv: line 2, column 1: the value is missing");
    expect_refused(write_temp_text("e.csv", "1,2\n3,nan\n"), &rows2, "\"nan\" is no finite number");
    expect_refused(write_temp_text("f.csv", "1,2\n3\n"), &rows2, "f.csv: line 2: 1 columns");
    expect_refused(write_temp_text("g.csv", "1,2,3\n"), &rows2, "3 columns, the network takes 2");
    expect_refused(write_temp_text("h.csv", "height,depth\n1,2\n"), &named2, "\"width\"");
    expect_refused(write_temp_text("i.csv", ""), &rows2, "empty");
    expect_refused(write_temp_text("j.csv", "1,2\n"), &grey4, "takes images");
    // as strict as tables with labels
    expect_refused(write_temp_text("k.csv", "1,2\n3,0x10\n"), &rows2, "\"0x10\" is no finite");
    expect_refused(write_temp_text("l.csv", "1,two\n3,4\n"), &rows2, "line 1, column 1: \"two\"");
    expect_refused(write_temp_text("m.csv", "1,\"2\n3,4\n"), &rows2, "a quote is not closed");
    EXPECT_EQ(read_all(write_temp_text("n.csv", "\"1\"\t2\n"), &rows2, name), 1);
    EXPECT_NEAR(inputs[1], 2, 0);
    // columns of the same name in their order
    static const char *const same[] = {"a", "a"};
    EsInputShape twice = {.is_rows = 1, .n_channels = 2, .size = 1, .column_names = same};
    EXPECT_EQ(read_all(write_temp_text("o.csv", "a,b,a\n1,2,3\n"), &twice, name), 1);
    EXPECT_NEAR(inputs[0], 1, 0);
    EXPECT_NEAR(inputs[1], 3, 0);
}

TEST(reads_folders_of_images) {
    char name[4200];
    uint8_t pixels[16];
    for (int i = 0; i < 16; i++) {
        pixels[i] = (uint8_t)(10 * i);
    }
    EsImage image = {4, 4, 1, pixels};
    EsStatus status = es_image_save(&image, temp_path("b.png"));
    if (status == ES_STATUS_UNSUPPORTED) {
        SKIP("this build has no libpng");
    }
    REQUIRE_OK(status);
    REQUIRE_OK(es_folder_make(temp_path("a")));
    pixels[0] = 99;
    REQUIRE_OK(es_image_save(&image, temp_path("a/a.png")));
    write_temp_text("notes.txt", "no image");
    EXPECT_EQ(read_all(temp_folder(), &grey4, name), 2);
    EXPECT_NEAR(inputs[3], 30, 0); // the folder's own first
    EXPECT_NEAR(inputs[16], 99, 0);
    EXPECT_CONTAINS(name, "a/a.png");
    EXPECT_EQ(read_all(temp_path("b.png"), &colour4, name), 1); // grey as colour
    EXPECT_NEAR(inputs[16 + 3], 30, 0);
    expect_refused(write_temp_text("c.png", "no image at all"), &grey4, "c.png");
    expect_refused(temp_path("b.png"), &rows2, "takes rows");
    REQUIRE_OK(es_folder_make(temp_path("empty")));
    expect_refused(temp_path("empty"), &grey4, "no .png or .jpg");
}
