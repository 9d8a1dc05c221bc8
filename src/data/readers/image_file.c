// PNG and JPEG files through libpng and libjpeg-turbo, from and to memory. Both libraries report
// errors by a long jump; the state that must outlive one is in a struct of the caller's.
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#if ES_HAVE_PNG
#include <png.h>
#endif
#if ES_HAVE_JPEG
#include <jpeglib.h>
#endif

#include "base/file.h"
#include "base/memory.h"
#include "data/image.h"

// deflate unpacks a byte to at most this many; a JPEG of one colour comes near it
#define MAX_EXPANSION 1040
#define MESSAGE_BYTES 200

#if ES_HAVE_PNG || ES_HAVE_JPEG

// A file that claims a large image costs its memory before the first pixel is seen: believe it only
// where so few bytes can hold so many pixels.
static EsStatus check_size(const char *name, const EsImage *image, size_t n_bytes) {
    int64_t n_pixels = (int64_t)image->width * image->height;
    if (image->width > ES_IMAGE_MAX_SIDE || image->height > ES_IMAGE_MAX_SIDE ||
        n_pixels > ES_IMAGE_MAX_PIXELS) {
        return ES_FAIL(INPUT, "%s: an image of %d x %d pixels, at most %d a side and %d in all",
                       name, image->width, image->height, ES_IMAGE_MAX_SIDE, ES_IMAGE_MAX_PIXELS);
    }
    if (n_pixels / 8 > (int64_t)n_bytes * MAX_EXPANSION) {
        return ES_FAIL(INPUT, "%s: claims an image of %d x %d pixels in a file of %zu bytes", name,
                       image->width, image->height, n_bytes);
    }
    return ES_STATUS_OK;
}

#endif

#if ES_HAVE_PNG

typedef struct PngState {
    png_structp png;
    png_infop info;
    const uint8_t *bytes; // the file
    size_t n_bytes, n_read;
    uint8_t *pixels; // as decoded, with alpha where there is one
    char message[MESSAGE_BYTES];
} PngState;

static void fail_png(png_structp png, png_const_charp message) {
    PngState *state = png_get_error_ptr(png);
    snprintf(state->message, sizeof state->message, "%s", message);
    longjmp(png_jmpbuf(png), 1);
}

static void ignore_png(png_structp png, png_const_charp message) {
    (void)png;
    (void)message;
}

static void read_png(png_structp png, png_bytep into, size_t n) {
    PngState *state = png_get_io_ptr(png);
    if (n > state->n_bytes - state->n_read) {
        png_error(png, "the file ends too early");
    }
    memcpy(into, state->bytes + state->n_read, n);
    state->n_read += n;
}

// Puts gray + alpha or colour + alpha over white and drops the alpha.
static void put_over_white(const uint8_t *from, size_t n_pixels, int n_channels, uint8_t *to) {
    for (size_t i = 0; i < n_pixels; i++, from += n_channels + 1) {
        int alpha = from[n_channels];
        for (int c = 0; c < n_channels; c++) {
            *to++ = (uint8_t)((from[c] * alpha + 255 * (255 - alpha) + 127) / 255);
        }
    }
}

static void set_transforms(png_structp png) {
    png_set_scale_16(png);
    png_set_palette_to_rgb(png);
    png_set_expand_gray_1_2_4_to_8(png);
    png_set_tRNS_to_alpha(png);
}

static EsStatus read_png_pixels(PngState *state, EsImage *image) {
    int n_found = png_get_channels(state->png, state->info);
    size_t row_bytes = png_get_rowbytes(state->png, state->info);
    size_t n_pixels = (size_t)image->width * (size_t)image->height;
    ES_ASSERT(row_bytes == (size_t)image->width * (size_t)n_found);
    ES_ASSERT(n_found == image->n_channels || n_found == image->n_channels + 1);
    ES_TRY(es_allocate(row_bytes * (size_t)image->height, (void **)&state->pixels));
    int n_passes = png_set_interlace_handling(state->png);
    for (int pass = 0; pass < n_passes; pass++) {
        for (int y = 0; y < image->height; y++) {
            png_read_row(state->png, state->pixels + (size_t)y * row_bytes, NULL);
        }
    }
    png_read_end(state->png, NULL);
    if (n_found == image->n_channels) {
        image->pixels = state->pixels;
        state->pixels = NULL;
        return ES_STATUS_OK;
    }
    ES_TRY(es_allocate(n_pixels * (size_t)image->n_channels, (void **)&image->pixels));
    put_over_white(state->pixels, n_pixels, image->n_channels, image->pixels);
    return ES_STATUS_OK;
}

static EsStatus decode_png(const char *name, PngState *state, int is_header, EsImage *image) {
    if (setjmp(png_jmpbuf(state->png)) != 0) {
        return ES_FAIL(INPUT, "%s: damaged PNG file: %s", name, state->message);
    }
    png_set_read_fn(state->png, state, read_png);
    png_set_user_limits(state->png, ES_IMAGE_MAX_SIDE, ES_IMAGE_MAX_SIDE);
    png_set_chunk_cache_max(state->png, 64);
    png_set_chunk_malloc_max(state->png, 1 << 20);
    png_read_info(state->png, state->info);
    image->width = (int)png_get_image_width(state->png, state->info);
    image->height = (int)png_get_image_height(state->png, state->info);
    image->n_channels = png_get_color_type(state->png, state->info) & PNG_COLOR_MASK_COLOR ? 3 : 1;
    ES_TRY(check_size(name, image, state->n_bytes));
    if (is_header) {
        return ES_STATUS_OK;
    }
    set_transforms(state->png);
    png_set_interlace_handling(state->png);
    png_read_update_info(state->png, state->info);
    return read_png_pixels(state, image);
}

static EsStatus open_png(const char *name, const uint8_t *bytes, size_t n_bytes, int is_header,
                         EsImage *image) {
    PngState state = {.bytes = bytes, .n_bytes = n_bytes};
    state.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state, fail_png, ignore_png);
    state.info = state.png != NULL ? png_create_info_struct(state.png) : NULL;
    EsStatus status = state.info != NULL ? decode_png(name, &state, is_header, image)
                                         : ES_FAIL(MEMORY, "%s: no memory for a PNG reader", name);
    png_destroy_read_struct(&state.png, &state.info, NULL);
    es_release(state.pixels);
    return status;
}

typedef struct PngWriting {
    EsFileWriter *writer;
    EsStatus status;
    char message[MESSAGE_BYTES];
} PngWriting;

static void fail_png_writing(png_structp png, png_const_charp message) {
    PngWriting *writing = png_get_error_ptr(png);
    snprintf(writing->message, sizeof writing->message, "%s", message);
    longjmp(png_jmpbuf(png), 1);
}

static void write_png(png_structp png, png_bytep from, size_t n) {
    PngWriting *writing = png_get_io_ptr(png);
    writing->status = es_file_writer_append(writing->writer, from, n);
    if (writing->status != ES_STATUS_OK) {
        png_error(png, "writing failed");
    }
}

static void flush_png(png_structp png) { (void)png; }

static EsStatus encode_png(const EsImage *image, const char *path, png_structp png, png_infop info,
                           PngWriting *writing) {
    if (setjmp(png_jmpbuf(png)) != 0) {
        return writing->status != ES_STATUS_OK
                   ? writing->status
                   : ES_FAIL(IO, "%s: cannot write the image: %s", path, writing->message);
    }
    png_set_write_fn(png, writing, write_png, flush_png);
    png_set_IHDR(png, info, (png_uint_32)image->width, (png_uint_32)image->height, 8,
                 image->n_channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int y = 0; y < image->height; y++) {
        png_write_row(png,
                      image->pixels + (size_t)y * (size_t)image->width * (size_t)image->n_channels);
    }
    png_write_end(png, info);
    return ES_STATUS_OK;
}

EsStatus es_image_save(const EsImage *image, const char *path) {
    ES_ASSERT(image->n_channels == 1 || image->n_channels == 3);
    PngWriting writing = {.status = ES_STATUS_OK};
    ES_TRY(es_file_writer_open(path, &writing.writer));
    png_structp png =
        png_create_write_struct(PNG_LIBPNG_VER_STRING, &writing, fail_png_writing, ignore_png);
    png_infop info = png != NULL ? png_create_info_struct(png) : NULL;
    EsStatus status = info != NULL ? encode_png(image, path, png, info, &writing)
                                   : ES_FAIL(MEMORY, "%s: no memory for a PNG writer", path);
    png_destroy_write_struct(&png, &info);
    if (status != ES_STATUS_OK) {
        es_file_writer_abandon(writing.writer);
        return status;
    }
    return es_file_writer_commit(writing.writer);
}

#else

static EsStatus open_png(const char *name, const uint8_t *bytes, size_t n_bytes, int is_header,
                         EsImage *image) {
    (void)bytes, (void)n_bytes, (void)is_header, (void)image;
    return ES_FAIL(UNSUPPORTED,
                   "%s: this build reads no PNG files: install libpng-dev and build again", name);
}

EsStatus es_image_save(const EsImage *image, const char *path) {
    (void)image;
    return ES_FAIL(UNSUPPORTED,
                   "%s: this build writes no PNG files: install libpng-dev and build again", path);
}

#endif

#if ES_HAVE_JPEG

// scans of a progressive file; ordinary ones have about ten
#define MAX_SCANS 100

typedef struct JpegState {
    struct jpeg_error_mgr errors; // first: the library knows this part alone
    struct jpeg_progress_mgr progress;
    struct jpeg_decompress_struct jpeg;
    jmp_buf jump;
    char message[JMSG_LENGTH_MAX];
} JpegState;

static void fail_jpeg(j_common_ptr jpeg) {
    JpegState *state = (JpegState *)jpeg->err;
    jpeg->err->format_message(jpeg, state->message);
    longjmp(state->jump, 1);
}

// Damage is a warning to the library, which goes on with grey; here it is an error.
static void refuse_warning(j_common_ptr jpeg, int level) {
    if (level < 0) {
        fail_jpeg(jpeg);
    }
}

static void watch_scans(j_common_ptr jpeg) {
    JpegState *state = (JpegState *)jpeg->err;
    if (state->jpeg.input_scan_number > MAX_SCANS) {
        snprintf(state->message, sizeof state->message, "more than %d scans", MAX_SCANS);
        longjmp(state->jump, 1);
    }
}

static EsStatus decode_jpeg(const char *name, JpegState *state, const uint8_t *bytes,
                            size_t n_bytes, int is_header, EsImage *image) {
    struct jpeg_decompress_struct *jpeg = &state->jpeg;
    if (setjmp(state->jump) != 0) {
        return ES_FAIL(INPUT, "%s: damaged JPEG file: %s", name, state->message);
    }
    jpeg_create_decompress(jpeg);
    jpeg->progress = &state->progress;
    jpeg_mem_src(jpeg, bytes, (unsigned long)n_bytes);
    jpeg_read_header(jpeg, TRUE);
    if (jpeg->num_components != 1 && jpeg->num_components != 3) {
        return ES_FAIL(INPUT, "%s: a JPEG file of %d components (CMYK?), expected grey or colour",
                       name, jpeg->num_components);
    }
    image->width = (int)jpeg->image_width;
    image->height = (int)jpeg->image_height;
    image->n_channels = jpeg->num_components;
    ES_TRY(check_size(name, image, n_bytes));
    if (is_header) {
        return ES_STATUS_OK;
    }
    jpeg->out_color_space = image->n_channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg->dct_method = JDCT_ISLOW; // the exact one: the same bytes on every machine
    jpeg_start_decompress(jpeg);
    size_t row_bytes = (size_t)image->width * (size_t)image->n_channels;
    ES_TRY(es_allocate(row_bytes * (size_t)image->height, (void **)&image->pixels));
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = image->pixels + (size_t)jpeg->output_scanline * row_bytes;
        jpeg_read_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_decompress(jpeg);
    return ES_STATUS_OK;
}

static EsStatus open_jpeg(const char *name, const uint8_t *bytes, size_t n_bytes, int is_header,
                          EsImage *image) {
    JpegState *state = NULL;
    ES_TRY(es_allocate(sizeof *state, (void **)&state));
    state->jpeg.err = jpeg_std_error(&state->errors);
    state->errors.error_exit = fail_jpeg;
    state->errors.emit_message = refuse_warning;
    state->progress.progress_monitor = watch_scans;
    EsStatus status = decode_jpeg(name, state, bytes, n_bytes, is_header, image);
    jpeg_destroy_decompress(&state->jpeg);
    es_release(state);
    return status;
}

#else

static EsStatus open_jpeg(const char *name, const uint8_t *bytes, size_t n_bytes, int is_header,
                          EsImage *image) {
    (void)bytes, (void)n_bytes, (void)is_header, (void)image;
    return ES_FAIL(
        UNSUPPORTED,
        "%s: this build reads no JPEG files: install libjpeg62-turbo-dev and build again", name);
}

#endif

static EsStatus decode(const char *name, const void *bytes, size_t n_bytes, int is_header,
                       EsImage *image) {
    static const uint8_t png_begin[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    const uint8_t *first = bytes;
    memset(image, 0, sizeof *image);
    EsStatus status;
    if (n_bytes >= sizeof png_begin && memcmp(bytes, png_begin, sizeof png_begin) == 0) {
        status = open_png(name, bytes, n_bytes, is_header, image);
    } else if (n_bytes >= 3 && first[0] == 0xff && first[1] == 0xd8 && first[2] == 0xff) {
        status = open_jpeg(name, bytes, n_bytes, is_header, image);
    } else {
        status = ES_FAIL(INPUT, "%s: %s", name,
                         n_bytes == 0 ? "an empty file, expected a PNG or JPEG image"
                                      : "begins neither as a PNG nor as a JPEG file");
    }
    if (status != ES_STATUS_OK) {
        es_image_destroy(image);
    }
    return status;
}

EsStatus es_image_decode(const char *name, const void *bytes, size_t n_bytes, EsImage *image) {
    return decode(name, bytes, n_bytes, 0, image);
}

EsStatus es_image_decode_header(const char *name, const void *bytes, size_t n_bytes,
                                EsImage *image) {
    return decode(name, bytes, n_bytes, 1, image);
}
