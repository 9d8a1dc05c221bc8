// PNG and JPEG files: what was written is read back, and hostile ones are refused.
#include "data/image.h"
#include "temp_folder.h"

#if ES_HAVE_PNG
#include <png.h>
#endif
#if ES_HAVE_JPEG
#include <jpeglib.h>
#endif

#if ES_HAVE_PNG || ES_HAVE_JPEG

static uint8_t *read_back(const char *path, size_t *n_bytes) {
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(1 << 20);
    *n_bytes = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

// Every length, and every byte changed: refused with a message, or an image of the size.
static void expect_no_harm(const uint8_t *bytes, size_t n_bytes, size_t step) {
    EsImage image;
    for (size_t n = 0; n < n_bytes; n += step) {
        uint8_t *copy = malloc(n > 0 ? n : 1); // so that a sanitizer sees the end
        memcpy(copy, bytes, n);
        EXPECT_STATUS(es_image_decode("short", copy, n, &image), INPUT);
        EXPECT_CONTAINS(es_status_detail(), "short: ");
        EXPECT(image.pixels == NULL);
        free(copy);
    }
    uint8_t *copy = malloc(n_bytes);
    for (size_t n = 8; n < n_bytes; n += step) {
        memcpy(copy, bytes, n_bytes);
        copy[n] ^= 0x55;
        EsStatus status = es_image_decode("changed", copy, n_bytes, &image);
        EXPECT(status == ES_STATUS_OK || status == ES_STATUS_INPUT);
        es_image_destroy(&image);
    }
    free(copy);
}

#endif

#if ES_HAVE_PNG

// A PNG of w x h pixels of the given type; rows hold n_bytes each.
static void write_png(const char *path, int w, int h, int bits, int type, int is_interlaced,
                      const uint8_t *pixels, int row_bytes) {
    FILE *file = fopen(path, "wb");
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_init_io(png, file);
    png_set_IHDR(png, info, (png_uint_32)w, (png_uint_32)h, bits, type,
                 is_interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, 0, 0);
    if (type == PNG_COLOR_TYPE_PALETTE) {
        const png_color palette[2] = {{1, 2, 3}, {250, 251, 252}};
        png_set_PLTE(png, info, palette, 2);
    }
    png_write_info(png, info);
    int n_passes = is_interlaced ? png_set_interlace_handling(png) : 1;
    for (int pass = 0; pass < n_passes; pass++) {
        for (int y = 0; y < h; y++) {
            png_write_row(png, pixels + y * row_bytes);
        }
    }
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    fclose(file);
}

TEST(a_saved_image_is_read_back) {
    for (int n_channels = 1; n_channels <= 3; n_channels += 2) {
        uint8_t pixels[7 * 5 * 3];
        for (int i = 0; i < 7 * 5 * n_channels; i++) {
            pixels[i] = (uint8_t)(i * 37);
        }
        EsImage image = {7, 5, n_channels, pixels}, found, header;
        REQUIRE_OK(es_image_save(&image, temp_path("a.png")));
        REQUIRE_OK(es_image_load(temp_path("a.png"), &found));
        REQUIRE_OK(es_image_load_header(temp_path("a.png"), &header));
        EXPECT(found.width == 7 && found.height == 5 && found.n_channels == n_channels);
        EXPECT(header.width == 7 && header.height == 5 && header.n_channels == n_channels);
        EXPECT(header.pixels == NULL);
        EXPECT(memcmp(found.pixels, pixels, (size_t)(35 * n_channels)) == 0);
        es_image_destroy(&found);
    }
}

TEST(every_kind_of_png) {
    const uint8_t alpha[8] = {10, 20, 30, 0, 100, 100, 100, 128}; // RGBA: clear, half
    const uint8_t grey_alpha[4] = {0, 255, 0, 51}, bits[1] = {0xa0},
                  wide[4] = {0xff, 0xff, 0x80, 0};
    EsImage image;
    write_png(temp_path("rgba.png"), 2, 1, 8, PNG_COLOR_TYPE_RGBA, 0, alpha, 8);
    REQUIRE_OK(es_image_load(temp_path("rgba.png"), &image));
    EXPECT_EQ(image.n_channels, 3);
    EXPECT_EQ(image.pixels[0], 255); // white through what is clear
    EXPECT_EQ(image.pixels[3], (100 * 128 + 255 * 127 + 127) / 255);
    es_image_destroy(&image);
    write_png(temp_path("ga.png"), 2, 1, 8, PNG_COLOR_TYPE_GRAY_ALPHA, 1, grey_alpha, 4);
    REQUIRE_OK(es_image_load(temp_path("ga.png"), &image));
    EXPECT_EQ(image.n_channels, 1);
    EXPECT_EQ(image.pixels[0], 0);
    EXPECT_EQ(image.pixels[1], 204);
    es_image_destroy(&image);
    write_png(temp_path("bits.png"), 3, 1, 1, PNG_COLOR_TYPE_GRAY, 0, bits, 1);
    REQUIRE_OK(es_image_load(temp_path("bits.png"), &image));
    EXPECT(image.pixels[0] == 255 && image.pixels[1] == 0 && image.pixels[2] == 255);
    es_image_destroy(&image);
    write_png(temp_path("palette.png"), 3, 1, 1, PNG_COLOR_TYPE_PALETTE, 0, bits, 1);
    REQUIRE_OK(es_image_load(temp_path("palette.png"), &image));
    EXPECT_EQ(image.n_channels, 3);
    EXPECT(image.pixels[2] == 252 && image.pixels[3] == 1);
    es_image_destroy(&image);
    write_png(temp_path("wide.png"), 2, 1, 16, PNG_COLOR_TYPE_GRAY, 0, wide, 4);
    REQUIRE_OK(es_image_load(temp_path("wide.png"), &image));
    EXPECT(image.pixels[0] == 255 && image.pixels[1] == 128);
    es_image_destroy(&image);
}

TEST(damaged_png_files_are_refused) {
    uint8_t pixels[16 * 16 * 3];
    size_t n_bytes;
    for (size_t i = 0; i < sizeof pixels; i++) {
        pixels[i] = (uint8_t)(i * i);
    }
    EsImage image = {16, 16, 3, pixels}, found;
    REQUIRE_OK(es_image_save(&image, temp_path("a.png")));
    uint8_t *bytes = read_back(temp_path("a.png"), &n_bytes);
    expect_no_harm(bytes, n_bytes, 1);
    EXPECT_STATUS(es_image_decode("a", bytes, n_bytes - 20, &found), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "a: damaged PNG file: the file ends too early");
    free(bytes);
}

// Headers with their checksum that claim what the file cannot have.
TEST(a_claim_of_gigabytes_costs_nothing) {
    EsImage found;
    const uint8_t grey[1] = {0};
    size_t n_bytes;
    write_png(temp_path("tall.png"), 1, 1, 8, PNG_COLOR_TYPE_GRAY, 0, grey, 1);
    uint8_t *bytes = read_back(temp_path("tall.png"), &n_bytes);
    // 32768 x 32768, then 16000 x 2000; bytes 29..32 are the CRC of the header
    const uint8_t claims[2][12] = {{0, 0, 0x80, 0, 0, 0, 0x80, 0},
                                   {0, 0, 0x3e, 0x80, 0, 0, 7, 0xd0}};
    const char *const parts[2] = {"damaged PNG file", "claims an image of 16000 x 2000 pixels in"};
    for (int i = 0; i < 2; i++) {
        memcpy(bytes + 16, claims[i], 8);
        uint32_t crc = 0xffffffff;
        for (int k = 12; k < 29; k++) {
            crc ^= bytes[k];
            for (int b = 0; b < 8; b++) {
                crc = crc & 1 ? 0xedb88320u ^ (crc >> 1) : crc >> 1;
            }
        }
        crc = ~crc;
        for (int k = 0; k < 4; k++) {
            bytes[29 + k] = (uint8_t)(crc >> (24 - 8 * k));
        }
        size_t held = es_allocation_held();
        es_allocation_begin(0);
        EXPECT_STATUS(es_image_decode("tall", bytes, n_bytes, &found), INPUT);
        EXPECT(es_allocation_end().peak_bytes < held + 1000000);
        EXPECT_CONTAINS(es_status_detail(), parts[i]);
    }
    free(bytes);
}

#endif

#if ES_HAVE_JPEG

static void write_jpeg(const char *path, int width, int height, int n_channels,
                       int is_progressive) {
    FILE *file = fopen(path, "wb");
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = (JDIMENSION)width;
    jpeg.image_height = (JDIMENSION)height;
    jpeg.input_components = n_channels;
    jpeg.in_color_space = n_channels == 1 ? JCS_GRAYSCALE : n_channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 95, TRUE);
    if (is_progressive) {
        jpeg_simple_progression(&jpeg);
    }
    jpeg_start_compress(&jpeg, TRUE);
    uint8_t row[64 * 4];
    for (int y = 0; y < height; y++) {
        for (int i = 0; i < width * n_channels; i++) {
            row[i] = (uint8_t)(40 + 5 * y + 60 * (i % n_channels));
        }
        JSAMPROW rows[1] = {row};
        jpeg_write_scanlines(&jpeg, rows, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    fclose(file);
}

TEST(jpeg_files_are_read) {
    for (int k = 0; k < 4; k++) {
        int n_channels = k % 2 == 0 ? 1 : 3;
        EsImage image, header;
        write_jpeg(temp_path("a.jpg"), 20, 12, n_channels, k / 2);
        REQUIRE_OK(es_image_load_header(temp_path("a.jpg"), &header));
        REQUIRE_OK(es_image_load(temp_path("a.jpg"), &image));
        EXPECT(header.width == 20 && header.height == 12 && header.n_channels == n_channels);
        EXPECT(image.width == 20 && image.height == 12 && image.n_channels == n_channels);
        for (int c = 0; c < n_channels; c++) {
            EXPECT_NEAR(image.pixels[(6 * 20 + 10) * n_channels + c], 70 + 60 * c, 4.0);
        }
        es_image_destroy(&image);
    }
}

TEST(damaged_jpeg_files_are_refused) {
    size_t n_bytes;
    for (int is_progressive = 0; is_progressive < 2; is_progressive++) {
        write_jpeg(temp_path("a.jpg"), 40, 30, 3, is_progressive);
        uint8_t *bytes = read_back(temp_path("a.jpg"), &n_bytes);
        expect_no_harm(bytes, n_bytes - 2, 1); // without the end's mark nothing is missing
        free(bytes);
    }
    EsImage image;
    write_jpeg(temp_path("cmyk.jpg"), 8, 8, 4, 0);
    EXPECT_STATUS(es_image_load(temp_path("cmyk.jpg"), &image), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "4 components (CMYK?)");
}

#endif

TEST(other_files_are_refused) {
    EsImage image;
    EXPECT_STATUS(es_image_decode("x", "", 0, &image), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "x: an empty file");
    EXPECT_STATUS(es_image_decode("x", "GIF89a......", 12, &image), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "begins neither as a PNG nor as a JPEG file");
    EXPECT(es_image_load(temp_path("none.png"), &image) != ES_STATUS_OK);
    EXPECT_CONTAINS(es_status_detail(), "none.png");
}
