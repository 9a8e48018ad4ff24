package vfs

// page is one block of a memory file. A page that an image holds is never changed again, so that images share pages
// freely.
type page [BlockSize]byte

// zeroPage stands for allocated space that was never written.
var zeroPage = new(page)

// image is the content of a memory file at one moment: a length and its pages, nil where nothing is allocated and
// all is zero. Bytes at or above size are zero.
type image struct {
	size  int64
	pages []*page
}

func (im *image) clone() image {
	return image{size: im.size, pages: append([]*page(nil), im.pages...)}
}

// readAt copies what there is from off and returns its length.
func (im *image) readAt(p []byte, off int64) int {
	if off >= im.size {
		return 0
	}
	p = p[:min(int64(len(p)), im.size-off)]
	for done := 0; done < len(p); {
		pos := off + int64(done)
		from := int(pos % BlockSize)
		n := min(len(p)-done, BlockSize-from)
		if pg := im.page(pos / BlockSize); pg != nil {
			copy(p[done:done+n], pg[from:])
		} else {
			clear(p[done : done+n])
		}
		done += n
	}
	return len(p)
}

func (im *image) page(i int64) *page {
	if i >= int64(len(im.pages)) {
		return nil
	}
	return im.pages[i]
}

func (im *image) setPage(i int64, pg *page) {
	if missing := i + 1 - int64(len(im.pages)); missing > 0 {
		im.pages = append(im.pages, make([]*page, missing)...)
	}
	im.pages[i] = pg
}

// writeAt replaces bytes and grows the image as needed.
func (im *image) writeAt(p []byte, off int64) {
	for done := 0; done < len(p); {
		pos := off + int64(done)
		from := int(pos % BlockSize)
		n := min(len(p)-done, BlockSize-from)
		pg := new(page)
		if old := im.page(pos / BlockSize); old != nil && n < BlockSize {
			*pg = *old
		}
		copy(pg[from:], p[done:done+n])
		im.setPage(pos/BlockSize, pg)
		done += n
	}
	if len(p) > 0 {
		im.size = max(im.size, off+int64(len(p)))
	}
}

// resize sets the length. What a cut takes away reads as zero if the file grows again.
func (im *image) resize(size int64) {
	if size < im.size {
		if keep := RoundUp(size) / BlockSize; keep < int64(len(im.pages)) {
			im.pages = im.pages[:keep:keep]
		}
		if pg := im.page(size / BlockSize); pg != nil && size%BlockSize != 0 {
			cut := *pg
			clear(cut[size%BlockSize:])
			im.setPage(size/BlockSize, &cut)
		}
	}
	im.size = size
}

// preallocate fills the holes of the first size bytes with allocated zeroes.
func (im *image) preallocate(size int64) {
	for i := int64(0); i*BlockSize < size; i++ {
		if im.page(i) == nil {
			im.setPage(i, zeroPage)
		}
	}
	im.size = max(im.size, size)
}

// allocated counts the bytes of the pages that exist.
func (im *image) allocated() (n int64) {
	for _, pg := range im.pages {
		if pg != nil {
			n += BlockSize
		}
	}
	return n
}

// missing counts the bytes that writing or preallocating a range would allocate.
func (im *image) missing(off, length int64) (n int64) {
	for i := off / BlockSize; i*BlockSize < off+length; i++ {
		if im.page(i) == nil {
			n += BlockSize
		}
	}
	return n
}
